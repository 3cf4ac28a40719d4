"""The rebuilt loop of LLM-Refusal-Evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from refusal_checks.engines.placement import Assignment
from refusal_checks.models.spec import Served
from tests.speed.offline import Body, Job, Result
from tests.speed.original import CHARACTERS, NO_REUSE, VERDICT, Original, instructions
from tests.speed.subject import Subject
from tests.speed.workload import Request

MODEL = Served("model", "model")


def asked(benchmark: str, text: str) -> Request:
    return Request(benchmark, False, {"messages": [{"role": "user", "content": text}], "n": 2})


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that are done, each of which answers every request twice."""
    done: list[Job] = []

    def do(job: Job) -> Result:
        done.append(job)
        texts: list[list[list[str]]] = [[["yes", "no"] for _ in stage] for stage in job.stages]
        return Result(wall=2.0, seconds=1.0, prompt=1, output=1, texts=texts)

    monkeypatch.setattr(Job, "done", do)
    return done


def contents(stage: Sequence[Body]) -> list[str]:
    return [str(body["messages"][0]["content"]) for body in stage]


def test_all_answers_come_before_all_verdicts_each_with_its_own_load(jobs: list[Job]) -> None:
    loop = Original(Subject(MODEL, MODEL), Assignment())
    answers, judged = loop.done([asked("one", "A?"), asked("two", "B?"), asked("two", "C?")])
    assert (answers.load, judged.load) == (1.0, 1.0)
    first, second = jobs
    assert [contents(stage) for stage in first.stages] == [["A?"], ["B?", "C?"]]
    assert [len(stage) for stage in second.stages] == [2, 4]
    assert contents(second.stages[1])[1].endswith("Prompt: B?\nAnswer: no")
    assert second.stages[0][0]["max_tokens"] == second.stages[0][0]["min_tokens"] == VERDICT


def test_only_the_judge_reuses_a_prefix_unless_told_otherwise(jobs: list[Job]) -> None:
    loop = Original(Subject(MODEL, MODEL), Assignment())
    loop.done([asked("one", "A?")])
    replace(loop, reuse=False).done([asked("one", "A?")])
    assert [job.extra for job in jobs] == [(NO_REUSE,), (), (NO_REUSE,), (NO_REUSE,)]


def test_instructions_are_as_long_as_theirs() -> None:
    assert len(instructions(CHARACTERS)) == CHARACTERS
    assert instructions(100) == instructions(CHARACTERS)[:100]
