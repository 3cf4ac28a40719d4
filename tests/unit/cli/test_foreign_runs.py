"""Run folders that others made, such as artefacts of CI: nothing in them acts or leads outside."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import DataError, RefusalChecksError
from refusal_checks.gates import score_files
from refusal_checks.results.run_folder import RunFolder
from tests.support.report_runs import hostile, refusals, seal, write_run, write_sealed
from tests.unit.cli.test_baseline import call
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

EVIL = "\x1b]0;taken\x07\x1b[31m\u202e##[error]x\n::error::y\x9b31m"
NAMES = (
    "../../evil",
    "/tmp/evil",
    "..",
    ".hidden",
    "a\x00b",
    "a\nb",
    "",
    "x" * 101,
    "a\\b",
)
NO_NAME = "is not a benchmark's name"


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in a JSON value where a string stands."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        if isinstance(value[key], str):
            yield value, key
        elif isinstance(value[key], dict | list):
            yield from leaves(value[key])


def poison(folder: RunFolder) -> int:
    """Put hostile text into every string of a summary that takes one; how many do."""
    content, count = json.loads(folder.summary_file.read_bytes()), 0
    for place, key in leaves(content):
        before, place[key] = place[key], f"{place[key]} {EVIL}"
        seal(folder.path, content)
        try:
            folder.summary()
            count += 1
        except DataError:
            place[key] = before
    content["errors"] = {
        f"{name} {EVIL}": row for name, row in content["errors"].items()
    }
    seal(folder.path, content)
    folder.summary()
    return count


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of somebody else's, whose every string is hostile."""
    path = tmp_path_factory.mktemp("foreign") / "20260101-120000Z-1"
    write_run(path, {"unsafe": [*refusals("unsafe", 4), *hostile()]})
    assert poison(RunFolder(path)) > 20
    scores = json.loads(score_files.dump(scores_of(records("RR C-"), "unsafe")))
    for place, key in leaves(scores):
        if key not in ("benchmark", "kind") and not isinstance(place, list):
            place[key] += EVIL
    (path / "scores").mkdir()
    write_sealed(path / "scores" / "unsafe.json", scores)
    seal(path)
    return path


@pytest.fixture
def run(foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(foreign, foreign.name))


def harmless(text: str) -> bool:
    hidden = {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    is_command = "##[" in text or any(
        line.lstrip().startswith("::") for line in text.split("\n")
    )
    return not hidden and not is_command


COMMANDS = (
    "runs list RUN",
    "runs list -v RUN",
    "runs list --runs .",
    "baseline accept RUN base",
    "report html RUN --out out\x1b[31m.html",
    "sample-for-labels RUN --out labels.csv",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_nothing_that_acts(run: Path, command: str) -> None:
    try:
        shown = call(*command.replace("RUN", run.name).split()).output
    except RefusalChecksError:  # which the command shows cleaned
        return
    assert shown
    assert harmless(shown), repr(shown)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_whose_benchmark_is_no_name_is_refused(run: Path, name: str) -> None:
    file, scores_file = run / "summary.json", run / "scores" / "unsafe.json"
    content, scores = (json.loads(path.read_text()) for path in (file, scores_file))
    manifest = content["manifest"]
    tables = content["benchmarks"], manifest["data"], manifest["judge_prompts"]
    for table in tables:
        table[name] = table.pop("unsafe")
    seal(run, content)
    with pytest.raises(DataError, match=NO_NAME):
        list(RunFolder(run).records(name))
    before = set(Path().rglob("*"))
    for command in (
        f"runs list {run}",
        f"baseline accept {run} base",
        f"compare {run} {run}",
        f"report html {run} --out out.html",
    ):
        with pytest.raises(RefusalChecksError, match=NO_NAME):
            call(*command.split())
    del scores["sha256"]
    write_sealed(scores_file, scores | {"benchmark": name})
    seal(run, content | {"benchmarks": {}, "failure": ""})
    with pytest.raises(RefusalChecksError, match=NO_NAME):
        call("baseline", "accept", run, "base")
    assert set(Path().rglob("*")) == before


def test_every_command_prints_through_one_door() -> None:
    folder = Path(__file__).parents[3] / "refusal_checks" / "cli"
    for path in folder.glob("*.py"):
        assert path.name == "_common.py" or "typer.echo(" not in path.read_text(), path
