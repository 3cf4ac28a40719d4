"""The measuring scripts of ``tools/speed``: what they count, and the tables that they print."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.engines.base import Assignment
from refusal_checks.models.client.client import CHAT, TOKENIZE
from refusal_checks.models.spec import Served
from tools.speed import scale
from tools.speed.bare import BATCH, stages
from tools.speed.copies import WAYS, command
from tools.speed.log_phases import READY, phases
from tools.speed.offline import Job, Result
from tools.speed.original import NO_REUSE, VERDICT, Original
from tools.speed.published import KNOWN, Published
from tools.speed.schedule import Engines, Setting, Work, barriers, gate
from tools.speed.subject import Subject
from tools.speed.table import Ratio, ratios
from tools.speed.train import Machine, Train
from tools.speed.workload import Lengths, Recorder, Request, mixed

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "scale.md"
SMALL = Train(checkpoints=2, prompts=10, samples=3)


def test_one_model_can_have_two_engines() -> None:
    one = Subject(Served("demo:a", "weights"), Served("bundled", "weights"))
    assert (one.is_shared, one.engines) == (True, "one engine")
    two = one.apart()
    assert (two.is_shared, two.engines) == (False, "an engine each")
    assert two.apart() == two
    with pytest.raises(SystemExit, match="--judge keyword"):
        Subject.named("ORG/MODEL", "keyword")


def test_each_way_is_a_gate_on_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    commands = {each.name: command("ORG/M", each, tmp_path, ["--limit", "5"]) for each in WAYS}
    half, whole, copies = commands.values()
    assert half[:3] == ["taskset", "-c", "0,1"]
    assert whole[:3] == copies[:3] == ["taskset", "-c", "0,1,2,3"]
    assert copies == [*whole, "--candidate-args=--data-parallel-size 2"]


def test_each_phase_of_a_start_ends_with_its_line() -> None:
    log = [
        (11.0, "(APIServer pid=1) INFO 11-22 14:23:08 [api_utils.py:286] non-default args: {}"),
        (19.0, "(EngineCore pid=2) INFO 11-22 14:23:42 [core.py:133] Initializing a V1 LLM engine"),
        (26.0, "(APIServer pid=1) INFO [entry.py:140] Starting vLLM server on http://127.0.0.1"),
    ]
    found = phases(log, 26.5)
    assert list(found)[-1] == READY
    assert sum(found.values()) == pytest.approx(26.5)
    assert phases([(1.0, "ready")], 3.0) == {READY: 3.0}


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
    assert (choice["asked"]["min_tokens"], choice["asked"]["max_tokens"]) == (length, length)
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
    found = [(stage[0].benchmark, stage[0].is_judge, len(stage)) for stage in stages(requests)]
    assert found == [
        ("one", False, BATCH),
        ("one", False, 1),
        ("one", True, BATCH),
        ("one", True, 1),
        ("two", False, 3),
        ("two", True, 3),
    ]


def test_the_rebuilt_loop_answers_all_before_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []

    def do(job: Job) -> Result:
        jobs.append(job)
        texts: list[list[list[str]]] = [[["yes", "no"] for _ in stage] for stage in job.stages]
        return Result(wall=2.0, seconds=1.0, prompt=1, output=1, texts=texts)

    monkeypatch.setattr(Job, "done", do)
    requests = [
        Request(name, False, {"messages": [{"role": "user", "content": text}], "n": 2})
        for name, text in (("one", "A?"), ("two", "B?"), ("two", "C?"))
    ]
    model = Served("model", "model")
    Original(Subject(model, model), Assignment()).done(requests)
    first, second = jobs
    assert [len(stage) for stage in first.stages] == [1, 2]
    assert [len(stage) for stage in second.stages] == [2, 4]
    assert second.stages[0][0]["max_tokens"] == second.stages[0][0]["min_tokens"] == VERDICT
    assert [job.extra for job in jobs] == [(NO_REUSE,), ()]


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


def test_both_schedules_do_all_the_work() -> None:
    setting = Setting(prompts=600, benchmarks=4, places=64)
    work, ours, theirs = setting.work(), setting.engines(), setting.engines()
    gate(ours, work, setting.in_flight)
    barriers(theirs, work, setting.benchmarks)
    assert ours.busy == theirs.busy == sum(map(sum, work.answers)) + 35 * 5 * 600


def test_a_ratio_is_of_each_turn_and_not_of_the_medians() -> None:
    ratio = Ratio("(c) / (a)", "even", "one engine", (10.0, 30.0, 12.0), (5.0, 20.0, 12.0))
    assert ratios([ratio]).splitlines()[2] == (
        "| (c) / (a) | even | one engine | 12.0 / 12.0 | 2.00, 1.50, 1.00 | **1.50** |"
    )


@pytest.mark.parametrize("model", KNOWN.values(), ids=str)
def test_published_figures_are_explained(model: Published) -> None:
    assert min(model.costs()) > 0
    assert max(map(abs, model.errors().values())) < 0.09


def test_the_tokens_of_a_checkpoint_can_be_counted_by_hand() -> None:
    found = SMALL.tokens
    assert found.candidate_in == 10 * (25 + 10 + 50)
    assert found.candidate_out == 10 * 3 * 256
    assert found.judge_in == 30 * (25 + 10 + 956 + 52 + 50 + 256)
    assert found.judge_cached == 30 * 976  # 981 in whole blocks of 16
    assert found.judge_out == 30 * 35
    short = replace(SMALL, rationales="offenders", shown=4)
    assert short.tokens.judge_out == 30 * 5 + 5.5 * 35


def test_split_takes_as_long_as_the_slower_model() -> None:
    model = KNOWN["8b"]
    answers, verdicts = SMALL.answering(model), SMALL.judging(model)
    best = min(max(answers / n, verdicts / (8 - n)) for n in range(1, 8))
    found = Machine(8, model, model, "split").hours(SMALL)
    assert found == pytest.approx(2 * best / 3600)
    assert found >= Machine(8, model, model).hours(SMALL)
    with pytest.raises(ValueError, match="measured on 4 GPUs, here are 1"):
        Machine(1, KNOWN["70b-fp8"], model).hours(SMALL)


def test_the_page_has_the_tables_that_the_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    scale.main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    page = PAGE.read_text(encoding="utf-8")
    assert [line for line in lines if line not in page] == []


def test_own_speeds_and_machines_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    own = "--measured=mine:2:256/128=98,1024/128=46,256/1024=14.4,1024/1024=10.2"
    scale.main([own, "--machine=8 mine 8b shared", "--prompts=100", "--samples=2"])
    output = capsys.readouterr().out
    assert "| mine | 2 |" in output
    assert re.search(r"\| A \| 8 \| mine \| Llama 3.1 8B, BF16 \| shared \|", output)
    for words in ("--machine=8 8b 9b shared", "--measured=mine", "--prompts=0"):
        with pytest.raises(SystemExit):
            scale.main([words])
        assert words.partition("=")[0].strip("-") in capsys.readouterr().err
