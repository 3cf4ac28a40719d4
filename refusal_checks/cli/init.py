"""``refusal-checks init``: the files that a repository needs to gate its models."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from refusal_checks.cli._common import echo, explain_write_error
from refusal_checks.version import SOURCE, __version__

LOCKS = (
    "https://raw.githubusercontent.com/refusal-checks/refusal-checks/"
    f"v{__version__}/requirements"
)
"""Lists of everything this version needs, with versions and hashes."""

TEMPLATES = Path(__file__).parent / "templates"
_ALWAYS = {
    "default.toml": "thresholds/default.toml",
    "refusal_gates.py": "gates/refusal_gates.py",
}


_WITH_TEXTS = ("report.html", "gate.log")

CI = Literal["github", "gitlab", "jenkins", "none"]

_SCRIPT = {"gate.sh": "ci/refusal-gate.sh"}
_PIPELINES: dict[CI, dict[str, str]] = {
    "github": {**_SCRIPT, "github.yml": ".github/workflows/refusal-gate.yml"},
    "gitlab": {**_SCRIPT, "gitlab.yml": "ci/refusal-gate.gitlab-ci.yml"},
    "jenkins": {**_SCRIPT, "Jenkinsfile": "ci/refusal-gate.Jenkinsfile"},
    "none": {},
}


def add(app: typer.Typer) -> None:
    app.command()(init)


def init(
    ci: Annotated[
        CI | None,
        typer.Option(
            help="Pipeline to write; default: the one whose files are here, else github."
        ),
    ] = None,
) -> None:
    """Write a run file, a test file and a pipeline into this folder; overwrite nothing."""
    folder = Path.cwd()
    here: CI = "jenkins" if (folder / "Jenkinsfile").exists() else "github"
    chosen = ci or ("gitlab" if (folder / ".gitlab-ci.yml").exists() else here)
    for template, name in (_ALWAYS | _PIPELINES[chosen]).items():
        path = folder / name
        if os.path.lexists(path):
            echo(f"kept     {name}")
            continue
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        text = text.replace("@SOURCE@", SOURCE).replace("@LOCKS@", LOCKS)
        with explain_write_error(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        echo(f"written  {name}")
    _ignore_texts(folder / ".gitignore")
    echo(NEXT)


def _ignore_texts(path: Path) -> None:
    """Keep git from committing files with prompts and answers outside ``.refusal-checks``."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [name for name in _WITH_TEXTS if name not in there.splitlines()]
    if missing:
        gap = "\n" if there and not there.endswith("\n") else ""
        with explain_write_error(path), path.open("a", encoding="utf-8") as file:
            file.write(gap + "".join(f"{name}\n" for name in missing))
    echo(f"{'written ' if missing else 'kept    '} {path.name}")


NEXT = """
Next:
  1. name the models in thresholds/default.toml, or on the command line, as below
     MODEL: a folder, ORG/MODEL, http://HOST:PORT/v1#MODEL or replay:FILE
     JUDGE: the same (openai/gpt-oss-20b)
  2. check all that a run needs, and what each gate can show:
                            refusal-checks doctor MODEL --judge JUDGE
  3. gate a model:          refusal-checks gate MODEL --judge JUDGE --limit 50
  4. set the bounds in thresholds/default.toml, and commit the files
To see it work in seconds, with neither engine nor network:
  refusal-checks gate replay:demo"""
