"""Run folders that others made, such as artefacts of CI: nothing in them acts or leads outside."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import BaselineError, DataError, RefusalChecksError
from refusal_checks.gates import score_files
from refusal_checks.results.run_folder import RunFolder
from tests.report_runs import hostile, refusals, write_run
from tests.unit.cli.test_baseline import call
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

EVIL = "\x1b]0;taken\x07\x1b[31m\u202e##[error]x\n::error::y\x9b31m"
NAMES = (
    "../../evil",
    "/tmp/evil",
    "a/b",
    "..",
    ".hidden",
    "a\x00b",
    "a\nb",
    "",
    "x" * 101,
    "a\\b",
)


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
        folder.summary_file.write_text(json.dumps(content))
        try:
            folder.summary()
            count += 1
        except DataError:
            place[key] = before
    content["errors"] = {
        f"{name} {EVIL}": row for name, row in content["errors"].items()
    }
    folder.summary_file.write_text(json.dumps(content))
    folder.summary()
    return count


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of somebody else's, whose every string is hostile."""
    path = tmp_path / "20260101-120000Z-1"
    write_run(path, {"unsafe": [*refusals("unsafe", 4), *hostile()]})
    assert poison(RunFolder(path)) > 20
    scores = json.loads(score_files.dump(scores_of(records("RR C-"), "unsafe")))
    for place, key in leaves(scores):
        if key not in ("benchmark", "kind") and not isinstance(place, list):
            place[key] += EVIL
    (path / "scores").mkdir()
    (path / "scores" / "unsafe.json").write_text(json.dumps(scores))
    return path


def harmless(text: str) -> bool:
    hidden = {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    is_command = "##[" in text or any(
        line.lstrip().startswith("::") for line in text.split("\n")
    )
    return not hidden and not is_command


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list", "RUN"),
        ("runs", "list", "-v", "RUN"),
        ("runs", "list", "--runs", "ROOT"),
        ("baseline", "accept", "RUN", "base"),
        ("init", "--suggest", "RUN"),
        ("report", "html", "RUN", "--out", "out\x1b[31m.html"),
        ("report", "junit-prompts", "RUN", "--out", "out.xml"),
        ("sample-for-labels", "RUN", "--out", "labels.csv"),
        ("runs", "export", "RUN", "out.jsonl"),
    ],
    ids=" ".join,
)
def test_a_command_shows_nothing_that_acts(
    run: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {"RUN": str(run), "ROOT": str(run.parent)}
    try:
        shown = call(*(paths.get(word, word) for word in words)).output
    except RefusalChecksError:  # which the command shows cleaned
        return
    assert shown
    assert harmless(shown), repr(shown)


@pytest.mark.parametrize("name", NAMES)
def test_a_baseline_whose_benchmark_is_no_name_is_refused(
    run: Path, tmp_path: Path, name: str
) -> None:
    file = run / "scores" / "unsafe.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"benchmark": name}))
    (run / "summary.json").write_text('{"format": 1, "manifest": {}, "benchmarks": {}}')
    before = set(tmp_path.rglob("*"))
    for words in (
        ("baseline", "accept", run, tmp_path / "base"),
        ("init", "--suggest", run),
    ):
        with pytest.raises(BaselineError, match="no name of a benchmark"):
            call(*words)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", NAMES[:2])  # all of them below
@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list", "RUN"),
        ("runs", "export", "RUN", "out.jsonl"),
        ("baseline", "accept", "RUN", "base"),
        ("compare", "RUN", "RUN"),
        ("report", "html", "RUN", "--out", "out.html"),
    ],
    ids=" ".join,
)
def test_a_run_whose_benchmark_is_no_name_is_refused(
    run: Path, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    content = json.loads((run / "summary.json").read_text())
    manifest = content["manifest"]
    for table in (content["benchmarks"], manifest["data"], manifest["judge_prompts"]):
        table[name] = table.pop("unsafe")
    (run / "summary.json").write_text(json.dumps(content))
    before = set(tmp_path.rglob("*"))
    paths = {"RUN": run, "base": tmp_path / "base", "out.html": tmp_path / "out.html"}
    with pytest.raises(DataError, match="no name of a benchmark"):
        call(*(paths.get(word, word) for word in words))
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", NAMES)
def test_records_are_read_from_the_run_s_own_folder(run: Path, name: str) -> None:
    with pytest.raises(DataError, match="no name of a benchmark"):
        list(RunFolder(run).records(name))


@pytest.mark.parametrize("name", ["a] [b", 'x"] = 1', "a.b", "ж", "a b"])
def test_a_suggestion_is_toml_whatever_the_benchmark_is_called(
    run: Path, name: str
) -> None:
    file = run / "scores" / "unsafe.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"benchmark": name}))
    try:
        shown = call("init", "--suggest", run).output
    except BaselineError:
        return
    assert list(tomllib.loads(shown)) == [name]


def test_every_command_prints_through_one_door() -> None:
    folder = Path(__file__).parents[3] / "refusal_checks" / "cli"
    for path in folder.glob("*.py"):
        assert path.name == "_common.py" or "typer.echo(" not in path.read_text(), path
