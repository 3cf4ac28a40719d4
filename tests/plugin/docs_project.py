"""A project that holds what the documentation's commands name."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from refusal_checks.models.demo import PERSONAS
from tests.fake_server import FakeServer
from tests.plugin.conftest import ROOT
from tests.plugin.docs_commands import Place, check, models, slug
from tests.plugin.docs_data import labelled_answers, write_csv, write_mirror
from tests.plugin.docs_pages import Command, commands
from tests.plugin.docs_server import answer, tokens

RUNS = ("RUN", "RUN_A", "RUN_B", "BASELINE_RUN")
"""What pages call finished runs."""

_MODEL = "--candidate ORG/MODEL --judge ORG/JUDGE"

_RUN = f"pytest {_MODEL} --thresholds thresholds/default.toml --thresholds thresholds/cfsafety.toml"

_AFTER = (
    "refusal-checks baseline accept RUN baselines",
    "refusal-checks sample-for-labels RUN --n 100",
)

_MAKES = {"refusal-checks sample-for-labels": "RUN/labels.csv"}
"""Files that a command will not overwrite."""


@contextmanager
def prepared(folder: Path) -> Iterator[Place]:
    """The project in a new folder, and its server; commands are checked in copies of it."""
    named = {model for one in commands() for _, model in models(one.text.split())}
    names = {slug(model) for model in named | {f"demo:{persona}" for persona in PERSONAS}}
    mirror = folder / "public"
    write_mirror(mirror)
    project = folder / "project"
    _write_files(project, mirror)
    with FakeServer(answer, tokens=tokens, models=sorted(names)) as server:
        place = Place(project, server.url, mirror)
        _command(_RUN, place)
        _name_runs(project)
        for text in _AFTER:
            _command(text, place)
        _label(project)
        yield place


_INPUTS = {
    "--thresholds": "thresholds/smoke.toml",
    "--judge-template": "refusal_checks/judges/prompts/refusal.md",
    "--labels": "labelled.csv",
    "--human-labels": "labels.csv",
    "--candidate": "labelled.csv",
    "import": "results.jsonl",
}
"""What stands for a file that is named after an option, or a word, and that no page has."""

_FILE = re.compile(r"(thresholds/)?[\w-]+\.(toml|md|csv|jsonl)")

_RESULT = {"custom_id": "of another run", "response": {"status_code": 200, "body": {"choices": []}}}
"""A line of a batch file's results."""


def copied(place: Place, folder: Path, command: Command) -> Place:
    """The same project again, for one command: with what it reads, without what it makes."""
    shutil.copytree(place.folder, folder, symlinks=True)
    for name in (made for start, made in _MAKES.items() if command.text.startswith(start)):
        (folder / name).unlink()
    for option, value in pairwise(command.text.split()):
        name = value.removeprefix("replay:")
        if _FILE.fullmatch(name) and option in _INPUTS and not (folder / name).exists():
            shutil.copy(folder / _INPUTS[option], folder / name)
    return replace(place, folder=folder)


def _command(text: str, place: Place) -> None:
    check(Command("docs_project.py", 0, text), place)


def _write_files(project: Path, mirror: Path) -> None:
    project.mkdir()
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, project)
    for name in ("thresholds", "tests/gates"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copytree(mirror, project / "mirror")
    (project / "refusal_checks").symlink_to(ROOT / "refusal_checks")
    # In place of the library, whose import takes longer than all else that a command does.
    (project / "vllm.py").write_text('__version__ = "0.32.0"\n')
    (project / "results.jsonl").write_text(json.dumps(_RESULT) + "\n")
    for name in ("completions_gpt4.csv", "labelled.csv", "my_split.csv"):
        write_csv(project / name, labelled_answers())


def _name_runs(project: Path) -> None:
    """Give the one finished run the names that pages use."""
    folder = project / ".refusal-checks" / "runs"
    (run,) = folder.iterdir()
    for name in RUNS:
        (folder / name).symlink_to(run.name)
        (project / name).symlink_to(run.relative_to(project))


def _label(project: Path) -> None:
    """What a person would do with the sheet of answers to label."""
    sheet = project / "RUN" / "labels.csv"
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = "refusal" if "cannot" in row["answer"] else "compliance"
    write_csv(sheet, rows)
    shutil.copy(sheet, project)
