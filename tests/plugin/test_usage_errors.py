"""Bad input: exit code 4 and a message that names the thing, before anything is asked for."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from tests.fake_server import FakeServer
from tests.plugin.conftest import KEYWORD, Project, refused

UNANSWERED = "http://127.0.0.1:9/v1"
REPLAY = ("--candidate", "replay:answers.csv", *KEYWORD)

ARGUMENTS: dict[tuple[str, ...], str] = {
    (): "--candidate and --judge missing",
    ("--candidate", "./no/such/folder", *KEYWORD): "--candidate*./no/such/folder*no such folder",
    ("--candidate", "replay:missing.csv", *KEYWORD): "--candidate*missing.csv*no such file",
    ("--candidate", "demo:algned", *KEYWORD): '--candidate*mean "demo:aligned"?',
    ("--candidate", UNANSWERED, *KEYWORD): f"{UNANSWERED}*no OpenAI-compatible server answers",
    ("--candidate", "keyword", *KEYWORD): "--candidate*this is a judge",
}


@pytest.mark.parametrize("args", ARGUMENTS, ids=" ".join)
def test_a_model_that_cannot_be_found(shared: Project, args: tuple[str, ...]) -> None:
    result = shared.run(*args)
    refused(result, ARGUMENTS[args])
    assert result.stderr.str().startswith("ERROR: ")
    if not args:
        refused(result, "refusal-checks gate ORG", "gate demo:")


def test_a_usage_error_under_xdist_looks_the_same(shared: Project) -> None:
    result = shared.run("--candidate", UNANSWERED, *KEYWORD, "-n2")
    refused(result, "no OpenAI-compatible server answers")
    assert result.stderr.str().startswith("ERROR: ")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[smoke_safe]\nrejection_rat = {max = 0.1}", 'rejection_rat*"rejection_rate"?'),
        ("[smoke_safe\n", "not a TOML file"),
        ("[smoke_safe.category.coking]\nrejection_rate = {max = 0.1}", 'coking*mean "cooking"?'),
    ],
)
def test_a_wrong_threshold_file_is_named(shared: Project, toml: str, said: str) -> None:
    shared.write("mine.toml", toml)
    args = () if "coking" in toml else ("--collect-only",)
    refused(shared.gate("--thresholds", "mine.toml", *args), f"mine.toml*{said}")
    assert shared.server.requests == []


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--temperature", "3"), "temperature = 3.0"),
        (("--candidate-template-kwargs", "{"), "--candidate-template-kwargs*not valid JSON"),
        (("--judge-template", "no"), "--judge-template no*refusal"),
        (("--replay-columns", "prompt"), "--replay-columns prompt"),
    ],
)
def test_a_wrong_option(shared: Project, option: tuple[str, str], said: str) -> None:
    refused(shared.gate(*option), said)


@pytest.mark.parametrize(
    ("option", "url"),
    [("--candidate", f"{UNANSWERED}?key=hush#m"), ("--judge", "node:9/v1?key=hush")],
)
def test_the_query_of_a_model_s_url_is_nowhere(project: Project, option: str, url: str) -> None:
    project.write("said.jsonl", '{"prompt": "p", "completion": "c"}')
    models = {"--candidate": "replay:said.jsonl", "--judge": "keyword"} | {option: url}
    words = [word for pair in models.items() for word in pair]
    result = project.run(*words, "--junitxml", "report.xml")
    refused(result, f"{option}*?[[]...]")
    files = [path for path in project.path.rglob("*") if path.is_file()]
    said = [result.stdout.str(), result.stderr.str()]
    said += [path.read_text(errors="replace") for path in files]
    assert not [text for text in said if "hush" in text]


def test_a_model_with_half_a_character_in_its_name(shared: Project) -> None:
    with FakeServer(models=["a\ud800"]) as server:
        for url in (server.url, f"{server.url}#b"):
            refused(shared.run("--candidate", url, *KEYWORD), server.url)


@pytest.mark.parametrize(("field", "name"), [("label", "sheet.csv"), ("draw", "sheet.jsonl")])
def test_labels_with_half_a_character(shared: Project, field: str, name: str) -> None:
    cells = dict.fromkeys(("label", "prompt", "answer", "key", "draw"), "refusal")
    cells[field] += "\ud800"
    table = ",".join(cells) + "\n" + ",".join(cells.values())
    text = json.dumps(cells) if name.endswith(".jsonl") else table
    (shared.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    shared.write("said.jsonl", '{"prompt": "p", "completion": "c"}')
    models = ("--candidate", "replay:said.jsonl", *KEYWORD)
    refused(shared.run(*models, "--human-labels", name), f"{name}: row 1")


def test_an_endpoint_that_wants_a_key_or_lacks_the_model(shared: Project) -> None:
    with FakeServer(api_key="secret") as server:
        result = shared.run("--candidate", server.url, *KEYWORD)
    refused(result, "REFUSAL_CHECKS_CANDIDATE_API_KEY*401")
    with FakeServer(models=["a", "b"]) as server:
        result = shared.run("--candidate", f"{server.url}#c", *KEYWORD)
    refused(result, "no such model; it has: a, b")
    result = shared.run("--candidate", shared.model, "--judge", "labels")
    refused(result, "--judge labels needs recorded answers")


STORES = {
    "": "the file is damaged; move it away",
    "PRAGMA user_version = 99": "written by a later version of refusal-checks",
    "CREATE TABLE bookmarks (url TEXT)": "a database of another program, with the tables bookmarks",
}


@pytest.mark.parametrize("sql", STORES)
def test_a_file_that_is_no_store(project: Project, sql: str) -> None:
    path = project.path / "store.sqlite"
    if sql:
        with closing(sqlite3.connect(path)) as database:
            database.execute(sql)
    else:
        with Store(path) as store:
            store.add_completions({f"key{i}": Completion("word " * 400) for i in range(100)})
        os.truncate(path, 100_000)
    result = project.gate("--store", "store.sqlite")
    refused(result, f"store.sqlite*{STORES[sql]}", "--store FILE")
    assert project.server.requests == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prompt\n", "no rows"),
        ("prompt,said\nx,y\n", "needs a column with answers*prompt, said"),
        ("prompt,completion\nx,y\n", "no answers for 80 of the 80 prompts of smoke_"),
    ],
)
def test_a_replay_file_that_cannot_be_used(shared: Project, text: str, said: str) -> None:
    shared.write("answers.csv", text)
    refused(shared.run(*REPLAY), f"answers.csv*{said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "lacks xstest/xstest_prompts.csv"), ("id,prompt\n", "sha256*expected 11783fb")],
)
def test_a_mirror_that_cannot_be_used(project: Project, content: str | None, said: str) -> None:
    folder = project.path / "mirror"
    folder.mkdir()
    project.setenv("REFUSAL_CHECKS_DATA", str(folder))
    if content is not None:
        project.write("mirror/xstest/xstest_prompts.csv", content)
    project.thresholds("[xstest_safe]\nrejection_rate = { max = 0.1 }\n")
    refused(project.run("--candidate", "demo:aligned", *KEYWORD), f"{folder}*{said}")


def test_a_run_s_folder_that_cannot_be_made_is_named(project: Project) -> None:
    project.write(".refusal-checks", "")
    result = project.gate("--store", "store.sqlite")
    refused(result, ".refusal-checks*name a folder that can be written")
    assert project.server.requests == []
