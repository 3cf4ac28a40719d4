"""The work that every way does, and the recorder of its requests."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.models.client.client import CHAT, TOKENIZE
from tests.speed.bare import BATCH, stages
from tests.speed.workload import Lengths, Recorder, Request, even, mixed


def test_lengths_are_log_normal_and_the_same_each_time() -> None:
    lengths = Lengths(median=48, spread=0.9, most=1024)
    found = [lengths.tokens(f"request {number}") for number in range(2000)]
    assert found == [lengths.tokens(f"request {number}") for number in range(2000)]
    assert 44 <= statistics.median(found) <= 52
    assert 60 <= statistics.mean(found) <= 85
    assert 1 <= min(found) < max(found) < 1024


def test_no_prompt_is_in_two_benchmarks() -> None:
    work = mixed(8, 5, Lengths())
    texts = [prompt.request for prompts in work.plan.values() for prompt in prompts]
    assert (work.prompts, len(set(texts))) == (32, 32)
    assert "32 prompts of 4 benchmarks, K = 5" in work.line
    with pytest.raises(ValueError, match="at most"):
        mixed(1000, 5, Lengths())


def test_even_work_is_of_xstest_where_that_is(mirror: Path) -> None:
    assert list(even(120, 2, 128, mirror).plan) == ["xstest"]
    assert list(even(20, 2, 128, None).plan) == ["smoke"]
    with pytest.raises(ValueError, match="--prompts 1000"):
        even(1000, 2, 128, None)


class Echo:
    """Answers every request, and says that it was cut off."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return {"choices": [{"finish_reason": "length", "asked": dict(body)}]}


def post(recorder: Recorder, text: str, path: str = CHAT) -> Any:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1024}
    return asyncio.run(recorder.post(path, body))


def test_the_recorder_sets_lengths_and_knows_whose_a_request_is() -> None:
    work = mixed(2, 5, Lengths())
    asked = work.plan["part_3"][1].request
    recorder = Recorder(Echo(), work, is_judge=False)
    (choice,) = post(recorder, asked)["choices"]
    length = Lengths().tokens(asked)
    assert (choice["asked"]["min_tokens"], choice["asked"]["max_tokens"]) == (length, length)
    assert choice["finish_reason"] == "stop"
    post(recorder, asked, TOKENIZE)
    (request,) = recorder.requests
    assert (request.benchmark, request.text) == ("part_3", asked)


def test_verdicts_keep_their_lengths() -> None:
    work = mixed(2, 5, Lengths())
    recorder = Recorder(Echo(), work, is_judge=True)
    asked = f"Request: {work.plan['part_2'][0].request}\n\nAnswer: no"
    (choice,) = post(recorder, asked)["choices"]
    assert (choice["asked"]["max_tokens"], choice["finish_reason"]) == (1024, "length")
    assert recorder.requests[0].benchmark == "part_2"


def test_the_old_schedule_judges_a_benchmark_after_all_its_answers() -> None:
    requests = [
        Request(name, is_judge, {"number": number})
        for is_judge in (False, True)
        for name in ("one", "two")
        for number in range(BATCH + 1 if name == "one" else 3)
    ]
    found = [(stage[0].benchmark, stage[0].is_judge, len(stage)) for stage in stages(requests)]
    assert found == [
        ("one", False, BATCH),
        ("one", False, 1),
        ("one", True, BATCH),
        ("one", True, 1),
        ("two", False, 3),
        ("two", True, 3),
    ]
