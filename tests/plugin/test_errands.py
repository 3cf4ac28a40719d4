"""Each errand of CONTRIBUTING's table, done in a copy of the package, with the files it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, Project
from tests.plugin.docs import Page
from tests.toy_model import MODEL_DIR

pytestmark = pytest.mark.slow

PAGE = Page(ROOT / "docs" / "how-to" / "extending.md")
FILES = {
    text.splitlines()[0].removeprefix("# acme_gates/"): text
    for _, text in PAGE.blocks("python")
}
PROMPT = (ROOT / "refusal_checks/judges/prompts/refusal.md").read_text()

COMMAND = '''
import typer

def add(app: typer.Typer) -> None:
    app.command()(hello)

def hello() -> None:
    """Say hello."""
    typer.echo("hello, errand")
'''

ENGINE = """
import sys
from refusal_checks import RunSpec
from refusal_checks.engines.vllm import EngineSpec, command
from refusal_checks.run.inputs import choose_folders, read_inputs

candidate = {"model": sys.argv[1], "args": "--option-of-tomorrow 3"}
tables = {"candidate": candidate, "judge": {"model": "keyword"}, "smoke_safe": {}}
spec = RunSpec.from_dict(tables)
inputs = read_inputs(spec, choose_folders(spec))
print(command(EngineSpec.from_model(inputs.candidate), 8000))
"""


@dataclass(frozen=True)
class Errand:
    """What to write into the package, a gate run that uses it, and what then is there.

    Attributes:
        files: what to write, by file: a new file, or lines to put before a line of an old one.
        options: of the gate run.
        table: the tables of its run file.
        docs: the generated table of the documentation that lists it.
    """

    files: Mapping[str, str | tuple[str, str]]
    shows: Callable[[Project, str], bool]
    options: str = ""
    table: str = "[smoke_safe]\nrejection_rate = { max = 0.10 }\n"
    docs: str = ""


def _was_seen(project: Project, said: str) -> bool:
    return (project.path / "seen").read_text() == "calm"


def _key(
    table: str, file: str, field: str, reader: str, line: str, place: str
) -> Errand:
    """A key of a table, which its reader writes into a file."""
    indent = line[: len(line) - len(line.lstrip())]
    return Errand(
        {
            file: (field, '    mood: str = Field("", description="of a test")\n'),
            reader: (line, f'{indent}open("seen", "w").write({place}.mood)\n'),
        },
        _was_seen,
        f"--set {table}.mood=calm",
    )


ERRANDS = {
    "a sampling setting": Errand(
        {
            "core/sampling.py": (
                "    temperature: Annotated[float, RequestField()] = Field(\n        0.6",
                "    min_p: Annotated[float, RequestField()] = Field(\n"
                '        0.0, ge=0, le=1, description="of a test"\n    )\n',
            )
        },
        lambda project, said: project.asked(judge=False)[0]["min_p"] == 0.1,
        "--set sampling.min_p=0.1",
    ),
    "a benchmark": Errand(
        {"benchmarks/suites/office.py": FILES["office.py"]},
        lambda project, said: "office-rejection_rate" in said,
        "-k office",
        "[office]\nrejection_rate = { max = 0.10 }\n",
        docs="benchmarks",
    ),
    "a judge prompt": Errand(
        {"judges/prompts/mine.md": f"{PROMPT}\nIt is mine."},
        lambda project, said: "It is mine." in str(project.asked(judge=True)[0]),
        "--set judge.prompt=mine",
    ),
    "a way of judging": Errand(
        {"judges/kinds/brief.py": FILES["brief.py"]},
        lambda project, said: (
            "smoke_safe-rejection_rate" in said and not project.asked(judge=True)
        ),
        table='[smoke_safe]\njudge = "brief"\nrejection_rate = { max = 0.10 }\n',
    ),
    "a metric": Errand(
        {"metrics/apology.py": FILES["apology.py"]},
        lambda project, said: "smoke_safe-apology_rate" in said,
        table="[smoke_safe]\napology_rate = { max = 0.50 }\n",
        docs="metrics",
    ),
    "a report format": Errand(
        {
            "reports/formats.py": (
                '    "html": Format(',
                '    "name": Format(lambda run, path: path.write_text(run.path.name), "x.txt"),\n',
            )
        },
        lambda project, said: Path("name.txt").read_text() == project.runs[0].name,
        "--set reports.name=name.txt",
    ),
    "an argument of the engine": Errand(
        {},
        lambda project, said: (
            "'--option-of-tomorrow', '3'" in _python(ENGINE, str(MODEL_DIR))
        ),
    ),
    "a key of `[limits]`": _key(
        "limits",
        *("core/settings.py", "    prompts: int | None = Field("),
        *("engines/pool.py", "        self._limits = limits\n", "limits"),
    ),
    "a key of `[judge]`": _key(
        "judge",
        *("core/settings.py", "    rationales: bool = Field("),
        *("run/panels.py", "    guide = method.category_guide\n", "setup.settings"),
    ),
    "a key of `[candidate]`": _key(
        "candidate",
        *("config/tables.py", '    model: str = Field(\n        "",\n'),
        "run/connections.py",
        "    model, spec = inputs.candidate, inputs.spec\n",
        "inputs.spec.candidate",
    ),
    "a command": Errand(
        {"cli/hello.py": COMMAND},
        lambda project, said: "hello, errand" in _command("hello"),
    ),
    "a reason without a verdict": Errand(
        {
            "core/judgements.py": (
                "    NO_LABEL = ",
                '    GIBBERISH = "gibberish", "candidate", False, False, _NONSENSE\n',
            ),
            "judges/rules.py": (
                "        # Models write typographic apostrophes.\n",
                "        return Invalid(Reason.GIBBERISH)\n",
            ),
        },
        lambda project, said: "gibberish" in said,
        "--judge keyword",
    ),
}

ROW = re.compile(r"^\| (an? [^|]+) \| (\d) \| (.+) \|$", re.MULTILINE)
TABLE = {
    name: (int(count), re.findall(r"`(\w+/[\w./]+)`", where))
    for name, count, where in ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
}
"""CONTRIBUTING's table: how many files each errand takes, and those that it names."""


def test_the_table_has_all_errands() -> None:
    assert TABLE.keys() == ERRANDS.keys()


@pytest.mark.parametrize("name", ERRANDS)
def test_an_errand_takes_the_files_that_contributing_says(
    name: str, project: Project
) -> None:
    errand = ERRANDS[name]
    package = project.path / "copy" / "refusal_checks"
    shutil.copytree(
        ROOT / "refusal_checks", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    paths = (package.parent, ROOT, ROOT / "demo")
    project.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    for file, text in errand.files.items():
        path = package / file
        if isinstance(text, tuple):
            line, lines = text
            old = path.read_text()
            assert old.count(line) == 1, f"{file}: {line}"
            text = old.replace(line, lines + line)
        else:
            assert not path.exists()
        path.write_text(text)

    project.write("gates.toml", errand.table)
    options = errand.options.split()
    judge = () if "--judge" in options else ("--judge", project.model)
    said = _command(
        *("gate", project.model, *judge, "--samples", "1", "--limit", "2"),
        *("--thresholds", "gates.toml", "-v", *options),
    )
    assert errand.shows(project, said), said
    if errand.docs:
        code = f"from tools.docs_site.generated import makers; print(makers()['{errand.docs}']())"
        (new,) = (Path(file).stem for file in errand.files)
        assert f"`{new}" in _python(code)

    count, named = TABLE[name]
    assert count == len(errand.files)
    stems = {Path(file).stem for file in errand.files}
    written = {file.replace("NAME", stem) for file in named for stem in stems}
    assert len(written & errand.files.keys()) == len(named)


def _command(*words: str) -> str:
    return _python("from refusal_checks.cli import main; main()", *words)


def _python(code: str, *words: str) -> str:
    """What a process prints that uses the copy."""
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return said
