"""The measuring scripts of ``tools/speed``: what they count, and the tables that they print."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.models.client.client import CHAT, TOKENIZE
from tools.speed import scale
from tools.speed.bare import BATCH, stages
from tools.speed.schedule import Engines, Work, barriers, gate
from tools.speed.table import Ratio, ratios
from tools.speed.train import Train
from tools.speed.workload import Lengths, Recorder, Request, mixed

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "scale.md"
SMALL = Train(checkpoints=2, prompts=10, samples=3)


class Echo:
    """Answers every request, and says that it was cut off."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return {"choices": [{"finish_reason": "length", "asked": dict(body)}]}


def test_the_recorder_sets_lengths_and_knows_whose_a_request_is() -> None:
    work = mixed(2, 5, Lengths())
    asked = work.plan["part_3"][1].request
    recorder = Recorder(Echo(), work, is_judge=False)
    body = {"messages": [{"role": "user", "content": asked}], "max_tokens": 1024}
    (choice,) = asyncio.run(recorder.post(CHAT, body))["choices"]
    length = Lengths().tokens(asked)
    assert (choice["asked"]["min_tokens"], choice["asked"]["max_tokens"]) == (
        length,
        length,
    )
    assert choice["finish_reason"] == "stop"
    asyncio.run(recorder.post(TOKENIZE, body))
    (request,) = recorder.requests
    assert (request.benchmark, request.text) == ("part_3", asked)


def test_the_old_schedule_judges_a_benchmark_after_all_its_answers() -> None:
    requests = [
        Request(name, is_judge, {"number": number})
        for is_judge in (False, True)
        for name in ("one", "two")
        for number in range(BATCH + 1 if name == "one" else 3)
    ]
    found = [
        (stage[0].benchmark, stage[0].is_judge, len(stage))
        for stage in stages(requests)
    ]
    assert found == [
        *(("one", is_judge, size) for is_judge in (False, True) for size in (BATCH, 1)),
        *(("two", is_judge, 3) for is_judge in (False, True)),
    ]


def test_schedules_can_be_counted_by_hand() -> None:
    engines, ends = Engines(1, 2), list[int]()
    for tokens in (3, 5, 4):
        engines.submit(tokens, lambda: ends.append(engines.now))
    engines.run()
    assert ends == [3, 5, 7]
    assert engines.used == pytest.approx(12 / 14)
    work = Work([[2, 6], [4, 4]], verdict=1)
    engines = Engines(1, 2)
    gate(engines, work, in_flight=1)
    assert engines.now == 6 + 1 + 4 + 1
    engines = Engines(1, 8)
    barriers(engines, work, benchmarks=2)
    assert engines.now == (6 + 1) + (4 + 1)


def test_a_ratio_is_of_each_turn_and_not_of_the_medians() -> None:
    ratio = Ratio(
        "(c) / (a)", "even", "one engine", (10.0, 30.0, 12.0), (5.0, 20.0, 12.0)
    )
    assert ratios([ratio]).splitlines()[2] == (
        "| (c) / (a) | even | one engine | 12.0 / 12.0 | 2.00, 1.50, 1.00 | **1.50** |"
    )


def test_the_page_has_the_tables_that_the_script_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale.main([])
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert [line for line in lines if line not in page] == []
