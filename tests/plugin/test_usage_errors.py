"""Bad input beyond `mistakes.txt`: exit code 4, a message that names it, and nothing asked."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from tests.fake_server import FakeServer
from tests.plugin.conftest import KEYWORD, Project, in_both_modes, refused

UNANSWERED = "http://127.0.0.1:9/v1"


@in_both_modes
def test_a_usage_error_of_plain_pytest(shared: Project, mode: tuple[str, ...]) -> None:
    result = shared.run("--candidate", UNANSWERED, *KEYWORD, *mode)
    refused(result, "no OpenAI-compatible server answers")
    assert result.stderr.str().startswith("ERROR: ")
    refused(
        shared.run(*mode), "--candidate and --judge missing", "refusal-checks gate ORG"
    )


@pytest.mark.parametrize(
    ("option", "url"),
    [("--candidate", f"{UNANSWERED}?key=hush#m"), ("--judge", "node:9/v1?key=hush")],
)
def test_the_query_of_a_model_s_url_is_nowhere(
    project: Project, option: str, url: str
) -> None:
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


@pytest.mark.parametrize(
    ("field", "name"), [("label", "sheet.csv"), ("draw", "sheet.jsonl")]
)
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
    "PRAGMA user_version = 99": "it has format 99, and this version of refusal-checks reads",
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
            store.add_completions(
                {f"key{i}": Completion("word " * 400) for i in range(100)}
            )
        os.truncate(path, 100_000)
    result = project.gate("--store", "store.sqlite")
    refused(result, f"store.sqlite*{STORES[sql]}", "--store FILE")
    assert project.server.requests == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "lacks xstest/xstest_prompts.csv"),
        ("id,prompt\n", "sha256*expected 11783fb"),
    ],
)
def test_a_mirror_that_cannot_be_used(
    project: Project, content: str | None, said: str
) -> None:
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
