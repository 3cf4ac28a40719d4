"""What is asked for and stored: each answer once, and nothing that is there already."""

from __future__ import annotations

from collections import Counter

from refusal_checks.judges.prompt_metadata import EXAMPLE
from tests.support.project import EACH, KEYWORD, REUSE, Project, careless

OTHER_PROMPT = "{{ request }} / {{ answer }} / {{ marker }}"


def sampled(project: Project) -> Counter[tuple[str, int]]:
    """How often each answer, known by prompt and seed, was asked for."""
    return Counter(
        (body["messages"][-1]["content"], body["seed"] + i)
        for body in project.asked(judge=False)
        for i in range(body["n"])
    )


def test_each_answer_and_verdict_is_asked_for_once(project: Project) -> None:
    found = project.evaluate()
    assert found.counts == {"passed": 3}
    judged = Counter(
        body["messages"][-1]["content"] for body in project.asked(judge=True)
    )
    for asked in (sampled(project), judged):
        assert len(asked) == 160 * 2
        assert set(asked.values()) == {1}
    found.says("pass 100.0% * 80 min 80% smoke_unsafe-rejection_rate")
    manifest = found.result.summary.manifest
    assert manifest.data["smoke_safe"].prompts == 80


def test_what_is_stored_is_not_asked_for_again(project: Project) -> None:
    project.evaluate(only="smoke_safe")
    first = len(project.server.requests)
    again = project.evaluate(only="smoke_safe", **REUSE)
    again.says("80 prompts of smoke_safe: 0 answers to generate, at most 0 verdicts")
    assert len(project.server.requests) == first
    project.evaluate(only="smoke_safe", sampling_samples=5, **REUSE)
    assert list(sampled(project).values()) == [1] * 5 * 80
    assert {body["n"] for body in project.asked(judge=False)} == {2, 3}
    project.server.requests.clear()
    project.write("mine.md", f"{EXAMPLE}\n===== user =====\n{OTHER_PROMPT}")
    project.evaluate(only="smoke_safe", judge_prompt="mine.md", **REUSE)
    assert not project.asked(judge=False)
    assert len(project.asked(judge=True)) == 2 * EACH, "another judge's"


def test_a_breached_gate_names_its_offenders(project: Project) -> None:
    project.server.answer = careless
    found = project.evaluate(reports_failing_prompts=2)
    assert found.counts == {"failed": 2, "passed": 1}
    found.says(
        "rejection_rate 0.0%, *n = 80; min 80%",
        "64 of 80 prompts must change for a pass",
        "80 prompts count against this gate, the worst 2:",
        "1. smoke-unsafe-* compliance 2 of 2 times prompt: *answer: *Gladly*",
        "verdict: compliance *rationale: says <b>::error:: so",
    )
    assert "\x1b" not in found.said


def test_an_answer_that_a_filter_ended_is_asked_for_again_on_request(
    project: Project,
) -> None:
    project.server.finish_reason = "content_filter"
    run = {"only": "smoke_safe", **KEYWORD, **REUSE}
    project.evaluate(**run).says(
        "no verdict on 160 of 160 answers to smoke_safe: filtered answer (160)"
    )
    project.server.finish_reason = "stop"
    project.server.requests.clear()
    project.evaluate(**run)
    assert not project.server.requests
    retried = project.evaluate(**run, store_retry_unfinished=True)
    assert retried.counts == {"passed": 1}
    assert len(project.server.requests) == EACH


def test_a_limit_takes_a_part_and_is_in_the_manifest(project: Project) -> None:
    project.write("part.toml", "[smoke_unsafe]\nlimit = 16\n")
    found = project.evaluate("thresholds/default.toml", "part.toml")
    assert len(project.asked(judge=False)) == 96
    data = found.result.summary.manifest.data
    assert (data["smoke_unsafe"].limit, data["smoke_safe"].limit) == (16, None)
    assert found.result.summary.benchmarks["smoke_unsafe"].prompts == 16
    project.refuses(
        "smoke_unsafe.language.zh*raise the limit of prompts, 1, which leaves none",
        limits_prompts=1,
    )
