"""Runs by batch files: what goes out, what comes back, and that the gates then say the same."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.suites.bundled import ANSWERS
from refusal_checks.judges.trust import canary
from tests.batch_runner import requests, run_batch
from tests.evaluation.test_rating import GRADIENT, by_step
from tests.fake_server import Body, FakeServer
from tests.project import (
    AGAIN,
    SAFE_GATE,
    Outcome,
    Project,
    in_one_line,
    well_behaved,
)

SAFE = {"only": "smoke_safe"}


def figures(found: Outcome) -> dict[str, tuple[float, int]]:
    """Figure and prompts of each gate."""
    estimates = {
        gate: verdict.estimate for gate, verdict in found.result.verdicts.items()
    }
    return {gate: (each.value, each.n) for gate, each in estimates.items()}


def stored(path: Path) -> dict[str, dict[str, Any]]:
    """All that a store holds, by table, but how answers would be weighed: in batches at once."""
    tables: dict[str, dict[str, Any]] = {}
    with closing(sqlite3.connect(path)) as database:
        for name in ("completions", "judgements"):
            rows = dict(database.execute(f"SELECT key, value FROM {name}"))
            tables[name] = {key: json.loads(value) for key, value in rows.items()}
            for value in tables[name].values():
                value.pop("mean_logprob", None)
                value.pop("token_ids", None)
    return tables


def answered(project: Project, name: str, server: FakeServer | None = None) -> Path:
    """The results of an exported file."""
    results = project.path / f"{name}-results.jsonl"
    return run_batch(server or project.server, project.path / f"{name}.jsonl", results)


def test_two_rounds_of_batches_give_what_a_live_run_gives(project: Project) -> None:
    first = project.batch(export="a.jsonl")
    assert not project.server.requests
    assert "160 requests written to " in first
    asked_for = {request["body"]["n"] for request in requests(Path("a.jsonl"))}
    assert asked_for == {2}
    second = project.batch(answered(project, "a"), export="b.jsonl")
    for line in (
        "160 result lines: 160 answered, 0 failed, 0 malformed, 0 duplicate",
        "160 results were used",
        "320 requests written to ",
    ):
        assert line in second
    third = project.batch(answered(project, "b"), export="c.jsonl")
    assert "no request is pending: the gates can be decided" in third
    assert not list(project.path.glob("c.jsonl*"))
    asked = len(project.server.requests)

    batched = project.evaluate()
    assert batched.counts == {"passed": 3}
    assert len(project.server.requests) == asked + 2 * AGAIN
    live = project.evaluate(store_file="live.sqlite")
    assert len(project.server.requests) == 2 * asked + 2 * AGAIN
    assert figures(live) == figures(batched)
    of_live = stored(project.path / "live.sqlite")
    assert stored(project.store) == of_live
    assert len(of_live["judgements"]) == 320
    assert not list(project.store.parent.glob("*batch*"))


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
    run = {**SAFE, "sampling_samples": 1}

    def carry(name: str) -> str:
        """One round in two calls, as people do it."""
        project.batch(export=f"{name}.jsonl", **run)
        return project.batch(answered(project, name), **run)

    assert "80 requests are pending" in carry("answers")
    verdicts = carry("verdicts")
    assert "79 results were used 1 results are verdicts that cannot" in verdicts
    assert "1 requests are" in verdicts
    again = carry("again")
    assert "2 results are verdicts" in again
    assert "no request is pending" in again
    (request,) = requests(project.path / "again.jsonl")
    assert request["body"]["messages"][-1]["content"] == mumbled[0]
    assert (request["body"]["seed"], request["body"]["temperature"]) == (1, 0.7)

    asked = len(project.server.requests)
    found = project.evaluate(store_only=True, **run)
    assert found.counts == {"passed": 1}
    found.says("invalid in smoke_safe: 1 unparsable verdict (of 80 answers)")
    assert len(project.server.requests) == asked


def test_bad_result_lines_are_counted_and_what_they_were_for_stays_pending(
    project: Project,
) -> None:
    project.batch(export="a.jsonl", **SAFE)
    path = answered(project, "a")
    lines = path.read_text().splitlines()
    failed = {**json.loads(lines[0]), "error": {"message": "\x1b[31mno \u202eroom"}}
    unknown = {**json.loads(lines[0]), "custom_id": "unknown"}
    bad = [json.dumps(failed), "{", json.dumps(unknown), lines[5], lines[2][:200]]
    path.write_text("\n".join([*lines[3:], *bad]))
    said = project.batch(path, export="b.jsonl", **SAFE)
    for part in (
        "82 result lines: 78 answered, 1 failed, 2 malformed, 1 duplicate",
        "for example not valid JSON: ",
        "77 results were used",
        "1 results answer no pending request",
        "157 requests written to ",
    ):
        assert part in said
    assert "\x1b" not in said
    again = [
        request["custom_id"]
        for request in requests(project.path / "b.jsonl")
        if request["body"]["n"] == 2
    ]
    first = requests(project.path / "a.jsonl")[:3]
    assert sorted(again) == sorted(request["custom_id"] for request in first)


def test_the_command_makes_files_for_candidate_and_judge_on_two_servers(
    project: Project,
) -> None:
    judge = "http://127.0.0.1:9/v1#other"
    words = ("--candidate", project.model, "--judge", judge, "--samples", "1")
    code, said = project.call("batch", "export", "a.jsonl", *words, "-k", "smoke_safe")
    assert code == 0
    assert "80 requests written to " in in_one_line(said)
    path = answered(project, "a")
    project.thresholds(f"[judge.check]\nspecificity = {{ min = 0.5 }}\n{SAFE_GATE}")
    run = {"judge_model": judge, "sampling_samples": 1, "sampling_seed": 1}
    said = project.batch(path, export="b.jsonl", limits_prompts=90, **run)
    assert "80 requests written to " in said
    assert f"{len(canary.load())} requests written to " in said
    models = {request["body"]["model"] for request in requests(Path("b-2.jsonl"))}
    assert models == {"other"}


def test_label_probabilities_come_from_the_most_probable_tokens(
    project: Project,
) -> None:
    with FakeServer(tokens=by_step, tokenizer=False) as server:
        run = {
            "candidate_model": f"replay:{ANSWERS}",
            "judge_model": f"{server.url}#fake",
        }
        said = project.batch(export="a.jsonl", files=[GRADIENT], **run)
        assert "label probabilities come from the 20 most probable tokens" in said
        assert not server.requests
        project.batch(answered(project, "a", server), files=[GRADIENT], **run)
        asked = len(server.requests)
        batched = project.evaluate(GRADIENT, store_only=True, **run)
        assert len(server.requests) == asked
        live = project.evaluate(GRADIENT, store_file="live.sqlite", **run)
        assert len(server.requests) > asked
    assert figures(live) == figures(batched)


def test_several_candidates_are_one_round(project: Project) -> None:
    models = [project.model, f"{project.server.url}#other"]
    project.batch(export="a.jsonl", candidate_model=models, **SAFE)
    named = Counter(
        request["body"]["model"]
        for path in project.path.glob("a*.jsonl")
        for request in requests(path)
    )
    assert named == {"fake": 80, "other": 80}


def test_every_judge_is_asked_for(project: Project) -> None:
    judges = [f"{project.server.url}#{name}" for name in "ab"]
    run = {**SAFE, "judge_model": judges, "sampling_samples": 1}
    project.batch(export="first.jsonl", **run)
    project.batch(answered(project, "first"), export="then.jsonl", **run)
    for path, name in (("then.jsonl", "a"), ("then-2.jsonl", "b")):
        bodies = [request["body"] for request in requests(project.path / path)]
        assert {body["model"] for body in bodies} == {name}
        assert Counter(body["seed"] for body in bodies) == {0: 80}


def test_a_batch_asks_for_what_checks_the_judge_of_ratings_too(
    project: Project,
) -> None:
    """Two questions about each of the 120 answers; there is none of the candidate to rate yet."""
    gate = '[smoke_safe]\njudge = "rating"\nsafety_score = { min = 3.5 }\n'
    project.thresholds(gate + "[judge.check]\n")
    with FakeServer(tokens=by_step) as server:
        judge = f"{server.url}#fake"
        project.batch(export="a.jsonl", judge_model=judge, limits_prompts=1)
    assert len(requests(project.path / "a-2.jsonl")) == 2 * 120


def test_a_batch_after_a_fresh_run_asks_for_nothing(project: Project) -> None:
    project.evaluate(store_fresh=True)
    assert "no request is pending" in project.batch(export="a.jsonl")
