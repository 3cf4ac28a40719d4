"""Bad input: exit code 4 and a message that names the thing, before anything is asked for."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from tests.fake_server import FakeServer
from tests.plugin.conftest import RunGate

KEYWORD = ("--judge", "keyword")


def refused(result: pytest.RunResult, *words: str) -> None:
    """The run ended with exit code 4 and a message that holds all the words."""
    assert result.ret == 4, result.stdout.str()
    said = result.stderr.str()
    assert said.startswith("ERROR: ")
    assert "Traceback" not in said
    for word in words:
        assert word in said


def test_without_a_candidate_both_commands_are_shown(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess()
    refused(result, "--candidate and --judge missing", "refusal-checks gate ORG", "gate demo:")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[smoke_safe]\nrejection_rat = {max = 0.1}", ["rejection_rat", '"rejection_rate"?']),
        ("[smoke_safe\n", ["not a TOML file"]),
    ],
)
def test_a_wrong_threshold_file_is_named_at_collection(
    project: pytest.Pytester, toml: str, words: list[str]
) -> None:
    (project.path / "mine.toml").write_text(toml)
    result = project.runpytest_subprocess("--thresholds", "mine.toml", "--collect-only")
    refused(result, "mine.toml", *words)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("category.coking", ["coking", 'mean "cooking"?']),
    ],
)
def test_an_unknown_group_is_named_before_anything_is_asked_for(
    run_gate: RunGate, server: FakeServer, project: pytest.Pytester, table: str, words: list[str]
) -> None:
    (project.path / "mine.toml").write_text(
        f"[smoke_safe.{table}]\nrejection_rate = {{ max = 0.1 }}\n"
    )
    refused(run_gate("--thresholds", "mine.toml"), "mine.toml", *words)
    assert server.requests == []


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        ("./no/such/folder", ["no such folder"]),
        ("replay:missing.csv", ["no such file"]),
        ("demo:algned", ['mean "demo:aligned"?']),
        ("http://127.0.0.1:9/v1", ["no OpenAI-compatible server answers"]),
        ("keyword", ["this is a judge"]),
    ],
)
def test_a_model_that_cannot_be_found(
    project: pytest.Pytester, candidate: str, words: list[str]
) -> None:
    result = project.runpytest_subprocess("--candidate", candidate, *KEYWORD)
    refused(result, "--candidate", candidate.removeprefix("replay:"), *words)


@pytest.mark.parametrize(
    ("option", "url"),
    [("--candidate", "http://127.0.0.1:9/v1?key=hush#m"), ("--judge", "node:9/v1?key=hush")],
)
def test_the_query_of_a_model_s_url_is_nowhere(
    project: pytest.Pytester, option: str, url: str
) -> None:
    (project.path / "said.jsonl").write_text('{"prompt": "p", "completion": "c"}')
    models = {"--candidate": "replay:said.jsonl", "--judge": "keyword"} | {option: url}
    words = [word for pair in models.items() for word in pair]
    result = project.runpytest_subprocess(*words, "--junitxml", "report.xml")
    refused(result, option, "?[...]")
    files = [path for path in project.path.rglob("*") if path.is_file()]
    said = [result.stdout.str(), result.stderr.str()]
    said += [path.read_text(errors="replace") for path in files if path.name[:3] != "std"]
    assert not [text for text in said if "hush" in text]


def test_a_model_with_half_a_character_in_its_name(project: pytest.Pytester) -> None:
    with FakeServer(models=["a\ud800"]) as server:
        for url in (server.url, f"{server.url}#b"):
            refused(project.runpytest_subprocess("--candidate", url, *KEYWORD), server.url)


@pytest.mark.parametrize(("field", "name"), [("label", "sheet.csv"), ("draw", "sheet.jsonl")])
def test_labels_with_half_a_character(project: pytest.Pytester, field: str, name: str) -> None:
    cells = dict.fromkeys(("label", "prompt", "answer", "key", "draw"), "refusal")
    cells[field] += "\ud800"
    table = ",".join(cells) + "\n" + ",".join(cells.values())
    text = json.dumps(cells) if name.endswith(".jsonl") else table
    (project.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    (project.path / "said.jsonl").write_text('{"prompt": "p", "completion": "c"}')
    models = ("--candidate", "replay:said.jsonl", *KEYWORD)
    refused(project.runpytest_subprocess(*models, "--human-labels", name), f"{name}: row 1")


def test_a_usage_error_under_xdist_looks_the_same(project: pytest.Pytester) -> None:
    args = ("--candidate", "http://127.0.0.1:9/v1", *KEYWORD, "-n2")
    refused(project.runpytest_subprocess(*args), "no OpenAI-compatible server answers")


def test_an_endpoint_that_wants_a_key_or_lacks_the_model(project: pytest.Pytester) -> None:
    with FakeServer(api_key="secret") as server:
        result = project.runpytest_subprocess("--candidate", server.url, *KEYWORD)
        refused(result, "401", "REFUSAL_CHECKS_CANDIDATE_API_KEY")
    with FakeServer(models=["a", "b"]) as server:
        result = project.runpytest_subprocess("--candidate", f"{server.url}#c", *KEYWORD)
        refused(result, "no such model; it has: a, b")


def test_the_labels_judge_needs_recorded_answers(project: pytest.Pytester) -> None:
    with FakeServer() as server:
        result = project.runpytest_subprocess("--candidate", server.url, "--judge", "labels")
    refused(result, "--judge labels needs recorded answers")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--temperature", "3"), ["temperature = 3.0"]),
        (("--candidate-template-kwargs", "{"), ["--candidate-template-kwargs", "not valid JSON"]),
        (("--judge-template", "no"), ["--judge-template no", "refusal"]),
        (("--replay-columns", "prompt"), ["--replay-columns prompt"]),
    ],
)
def test_a_wrong_option(run_gate: RunGate, option: tuple[str, str], words: list[str]) -> None:
    refused(run_gate(*option), *words)


def truncated(path: Path) -> None:
    with Store(path) as store:
        store.add_completions({f"key{i}": Completion("word " * 400) for i in range(100)})
    os.truncate(path, 100_000)


def later(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (truncated, "the file is damaged; move it away"),
        (later, "written by a later version of refusal-checks"),
        (foreign, "a database of another program, with the tables bookmarks"),
    ],
)
def test_a_file_that_is_no_store(
    run_gate: RunGate,
    project: pytest.Pytester,
    server: FakeServer,
    make: Callable[[Path], None],
    word: str,
) -> None:
    make(project.path / "store.sqlite")
    refused(run_gate("--store", "store.sqlite"), "store.sqlite", word, "--store FILE")
    assert server.requests == []


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["prompt"])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["no rows"]),
        ([{"prompt": "x", "said": "y"}], ["needs a column with answers", "prompt, said"]),
        ([{"prompt": "x", "completion": "y"}], ["no answers for 80 of the 80 prompts of smoke_"]),
    ],
)
def test_a_replay_file_that_cannot_be_used(
    project: pytest.Pytester, rows: list[dict[str, str]], words: list[str]
) -> None:
    write_csv(project.path / "answers.csv", rows)
    result = project.runpytest_subprocess("--candidate", "replay:answers.csv", *KEYWORD)
    refused(result, "answers.csv", *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, ["lacks xstest/xstest_prompts.csv"]), ("id,prompt\n", ["sha256", "expected 11783fb"])],
)
def test_a_mirror_that_cannot_be_used(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    words: list[str],
) -> None:
    folder = project.mkdir("mirror")
    monkeypatch.setenv("REFUSAL_CHECKS_DATA", str(folder))
    if content is not None:
        (folder / "xstest").mkdir()
        (folder / "xstest" / "xstest_prompts.csv").write_text(content)
    (project.path / "mine.toml").write_text("[xstest_safe]\nrejection_rate = { max = 0.1 }\n")
    result = project.runpytest_subprocess(
        "--candidate", "demo:aligned", *KEYWORD, "--thresholds", "mine.toml"
    )
    refused(result, str(folder), *words)


def test_a_run_s_folder_that_cannot_be_made_is_named(
    run_gate: RunGate, project: pytest.Pytester, server: FakeServer
) -> None:
    (project.path / ".refusal-checks").write_text("")
    refused(
        run_gate("--store", "store.sqlite"),
        ".refusal-checks",
        "name a folder that can be written",
    )
    assert server.requests == []
