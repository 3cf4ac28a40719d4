"""Runs by batch files: what goes out, what comes back, and that the gates then say the same."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.benchmarks.suites.bundled import ANSWERS
from tests.batch_runner import requests, run_batch
from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import AGAIN, ROOT, Project, well_behaved
from tests.plugin.test_rating_run import by_step

SAFE = ("-k", "smoke_safe")


def verdicts(project: Project) -> dict[str, tuple[float, int]]:
    """Figure and prompts of each gate of the last run."""
    found = project.summary()["verdicts"]
    estimates = {gate: verdict["estimate"] for gate, verdict in found.items()}
    return {gate: (each["value"], each["n"]) for gate, each in estimates.items()}


def stored(path: Path) -> dict[str, dict[str, Any]]:
    """All that a store holds, by table, but how answers would be weighed: in batches at once."""
    found: dict[str, dict[str, Any]] = {}
    with closing(sqlite3.connect(path)) as database:
        for name in ("completions", "judgements"):
            rows = dict(database.execute(f"SELECT key, value FROM {name}"))
            found[name] = {key: json.loads(value) for key, value in rows.items()}
            for value in found[name].values():
                value.pop("mean_logprob", None)
                value.pop("token_ids", None)
    return found


def answered(project: Project, name: str, server: FakeServer | None = None) -> Path:
    """The results of an exported file."""
    results = project.path / f"{name}-results.jsonl"
    return run_batch(server or project.server, project.path / f"{name}.jsonl", results)


def test_two_rounds_of_batches_give_what_a_live_run_gives(project: Project) -> None:
    first = project.gate("--batch-export", "a.jsonl")
    first.assert_outcomes(skipped=3)
    assert first.ret == 0
    assert not project.server.requests
    first.stdout.fnmatch_lines(["160 requests written to *a.jsonl*"])
    assert {request["body"]["n"] for request in requests(project.path / "a.jsonl")} == {
        2
    }
    results = answered(project, "a")
    second = project.gate("--batch-import", results, "--batch-export", "b.jsonl")
    second.assert_outcomes(skipped=3)
    second.stdout.fnmatch_lines(
        [
            "160 result lines: 160 answered, 0 failed, 0 malformed, 0 duplicate",
            "160 results were used",
            "320 requests written to *b.jsonl*",
        ]
    )
    third = project.gate(
        "--batch-import", answered(project, "b"), "--batch-export", "c.jsonl"
    )
    third.stdout.fnmatch_lines(["no request is pending: the gates can be decided"])
    assert not list(project.path.glob("c.jsonl*"))
    asked = len(project.server.requests)

    project.gate().assert_outcomes(passed=3)
    assert len(project.server.requests) == asked + 2 * AGAIN
    batched = verdicts(project)
    project.gate("--store", "live.sqlite").assert_outcomes(passed=3)
    assert len(project.server.requests) == 2 * asked + 2 * AGAIN
    assert verdicts(project) == batched
    live = stored(project.path / "live.sqlite")
    assert stored(project.path / ".refusal-checks" / "store.sqlite") == live
    assert len(live["judgements"]) == 320
    assert not list((project.path / ".refusal-checks").glob("*batch*"))


def test_an_unreadable_verdict_is_asked_for_once_more_with_another_seed(
    project: Project,
) -> None:
    mumbled: list[str] = []

    def mumbling(body: Body) -> Sequence[str]:
        text = body["messages"][-1]["content"]
        if "response_format" in body and not mumbled:
            mumbled.append(text)
        return ["mumble"] if text in mumbled else well_behaved(body)

    project.server.answer = mumbling
    only = (*SAFE, "--samples", "1")

    def carry(name: str) -> pytest.RunResult:
        """One round in two commands, as people do it."""
        project.gate(*only, "--batch-export", f"{name}.jsonl")
        return project.gate(*only, "--batch-import", answered(project, name))

    carry("answers").stdout.fnmatch_lines(["80 requests are pending*"])
    carry("verdicts").stdout.fnmatch_lines(
        [
            "79 results were used",
            "1 results are verdicts that cannot be read*",
            "1 requests are*",
        ]
    )
    carry("again").stdout.fnmatch_lines(
        ["2 results are verdicts*", "no request is pending*"]
    )
    (request,) = requests(project.path / "again.jsonl")
    assert request["body"]["messages"][-1]["content"] == mumbled[0]
    assert (request["body"]["seed"], request["body"]["temperature"]) == (1, 0.7)
    project.gate(*only, "--batch-export", "none.jsonl")
    assert not (project.path / "none.jsonl").exists()

    asked = len(project.server.requests)
    result = project.gate(*only, "--stored-only")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["invalid in smoke_safe: 1 unparsable verdict (of 80 answers)"]
    )
    assert len(project.server.requests) == asked


def test_bad_result_lines_are_counted_and_what_they_were_for_stays_pending(
    project: Project,
) -> None:
    project.gate(*SAFE, "--batch-export", "a.jsonl")
    path = answered(project, "a")
    lines = path.read_text().splitlines()
    failed = {**json.loads(lines[0]), "error": {"message": "\x1b[31mno \u202eroom"}}
    unknown = {**json.loads(lines[0]), "custom_id": "unknown"}
    bad = [json.dumps(failed), "{", json.dumps(unknown), lines[5], lines[2][:200]]
    path.write_text("\n".join([*lines[3:], *bad]))
    result = project.gate(*SAFE, "--batch-import", path, "--batch-export", "b.jsonl")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "82 result lines: 78 answered, 1 failed, 2 malformed, 1 duplicate",
            "  for example * status 200: *no *room",
            "  for example not valid JSON: *",
            "77 results were used",
            "1 results answer no pending request*",
            "157 requests written to *",
        ]
    )
    assert "\x1b[31m" not in result.stdout.str()
    again = [
        each for each in requests(project.path / "b.jsonl") if each["body"]["n"] == 2
    ]
    first = requests(project.path / "a.jsonl")[:3]
    assert {each["custom_id"] for each in again} == {
        each["custom_id"] for each in first
    }
    assert len(again) == 3


def test_the_command_makes_two_files_for_candidate_and_judge_on_two_servers(
    project: Project,
) -> None:
    models = ("--candidate", project.model, "--judge", "http://127.0.0.1:9/v1#other")
    args = (*models, *SAFE, "--samples", "1")
    result = project.command("batch", "export", "a.jsonl", *args)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["80 requests written to *a.jsonl*"])
    path = answered(project, "a")
    project.thresholds(
        "[judge.check]\nagreement = { min = 0.5 }\n[smoke_safe]\nrejection_rate = { max = 0.1 }\n"
    )
    limited = (
        *args,
        "--limit",
        "90",
        "--batch-import",
        path,
        "--batch-export",
        "b.jsonl",
    )
    result = project.run(*limited, "--seed", "1")
    result.stdout.fnmatch_lines(
        ["80 requests written to *b.jsonl*", "141 requests written to *b-2.jsonl*"]
    )
    assert {each["body"]["model"] for each in requests(project.path / "b-2.jsonl")} == {
        "other"
    }


def test_label_probabilities_come_from_the_most_probable_tokens(
    project: Project,
) -> None:
    with FakeServer(tokens=by_step, tokenizer=False) as server:
        models = ("--candidate", f"replay:{ANSWERS}", "--judge", f"{server.url}#fake")
        args = (*models, f"--thresholds={ROOT}/thresholds/rating_gradient.toml")
        result = project.run(*args, "--batch-export", "a.jsonl")
        result.stdout.fnmatch_lines(
            ["label probabilities come from the 20 most probable tokens*"]
        )
        assert not server.requests
        project.run(*args, "--batch-import", answered(project, "a", server))
        asked = len(server.requests)
        project.run(*args, "--stored-only")
        assert len(server.requests) == asked
        batched = verdicts(project)
        project.run(*args, "--store", "live.sqlite")
        assert len(server.requests) > asked
    assert verdicts(project) == batched


def test_several_candidates_are_one_round(project: Project) -> None:
    other = ("--candidate", f"{project.server.url}#other", "--batch-export", "a.jsonl")
    assert project.gate(*SAFE, *other).ret == 0
    files = project.path.glob("a*.jsonl")
    named = Counter(
        found["body"]["model"] for path in files for found in requests(path)
    )
    assert named == {"fake": 80, "other": 80}


def test_every_judge_is_asked_for(project: Project) -> None:
    url = project.server.url
    judges = ("--judge", f"{url}#a", "--judge", f"{url}#b")
    args = ("--candidate", project.model, *judges, "--samples", "1", *SAFE)
    project.run(*args, "--batch-export", "first.jsonl")
    path = answered(project, "first")
    project.run(*args, "--batch-import", path, "--batch-export", "then.jsonl")
    asked = [requests(file) for file in sorted(project.path.glob("then*.jsonl"))]
    assert [{found["body"]["model"] for found in each} for each in asked] == [
        {"b"},
        {"a"},
    ]
    for each in asked:
        assert Counter(found["body"]["seed"] for found in each) == {0: 80}
