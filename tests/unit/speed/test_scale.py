"""A release train on paper: its tokens, its hours, and the tables of the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.speed import scale
from tests.speed.published import KNOWN, PRICES, Costs, Published
from tests.speed.train import ALONE, WHOLE, Lengths, Machine, Train

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "scale.md"
SMALL = Train(checkpoints=2, prompts=10, samples=3)


def test_costs_that_are_known_are_found_again() -> None:
    true = Costs(20e-6, 100e-6, 0.05e-6)
    lengths = ((256, 128), (1024, 128), (256, 1024), (4096, 512))
    rates = {each: 1 / true.seconds(each[0], 0, each[1]) for each in lengths}
    model = Published("made up", 1, rates, "")
    assert model.costs() == pytest.approx(true)
    assert max(map(abs, model.errors().values())) < 1e-9


@pytest.mark.parametrize("model", KNOWN.values(), ids=str)
def test_published_figures_are_explained(model: Published) -> None:
    assert min(model.costs()) > 0
    assert max(map(abs, model.errors().values())) < 0.09
    assert model.source.startswith("https://")


def test_prices_are_those_of_the_cards() -> None:
    assert {gpus: round(price.dollars, 2) for gpus, price in PRICES.items()} == {1: 3.29, 8: 2.99}


def test_the_tokens_of_a_checkpoint_can_be_counted_by_hand() -> None:
    found = SMALL.tokens
    assert found.candidate_in == 10 * (25 + 10 + 50)
    assert found.candidate_out == 10 * 3 * 256
    assert found.judge_in == 30 * (25 + 10 + 956 + 52 + 50 + 256)
    assert found.judge_cached == 30 * 976  # 981 in whole blocks of 16
    assert found.judge_out == 30 * 35
    assert found.times(2).judge_out == 2 * found.judge_out


def test_offenders_are_asked_for_their_rationale_in_a_second_request() -> None:
    short = replace(SMALL, rationales="offenders", shown=4)
    assert short.asked == {ALONE: 30, WHOLE: 4 + 0.05 * 30}
    assert short.tokens.judge_out == 30 * 5 + 5.5 * 35
    assert replace(short, shown=1000).asked[WHOLE] == 30


@pytest.mark.parametrize(("change", "share"), [({"repeated": 0.2}, 0.8), ({"judged": 0.3}, 0.3)])
def test_what_is_stored_or_not_asked_costs_no_verdict(change: dict[str, Any], share: float) -> None:
    fewer = replace(SMALL, **change)
    assert fewer.verdicts == pytest.approx(30 * share)
    assert fewer.tokens.candidate_out == SMALL.tokens.candidate_out
    model = KNOWN["8b"]
    assert fewer.judging(model) == pytest.approx(share * SMALL.judging(model))


def test_the_prefix_cache_saves_reading_only() -> None:
    without = replace(SMALL, cache=False)
    saved = without.judging(KNOWN["8b"]) - SMALL.judging(KNOWN["8b"])
    assert saved == pytest.approx(30 * 976 * KNOWN["8b"].costs().read)
    assert without.tokens.judge_cached == 0


def test_copies_share_the_work_and_each_takes_the_gpus_it_was_measured_on() -> None:
    small, large = KNOWN["8b"], KNOWN["70b-fp8"]
    one = Machine(1, small, small).hours(SMALL)
    assert Machine(8, small, small).hours(SMALL) == pytest.approx(one / 8)
    four = Machine(4, large, large).hours(SMALL)
    assert Machine(8, large, large).hours(SMALL) == pytest.approx(four / 2)
    with pytest.raises(ValueError, match="measured on 4 GPUs, here are 1"):
        Machine(1, large, small).hours(SMALL)
    with pytest.raises(ValueError, match="1 and 4 GPUs are needed, here are 4"):
        Machine(4, small, large, "split").hours(SMALL)


def test_split_takes_as_long_as_the_slower_model_and_is_divided_for_it() -> None:
    model = KNOWN["8b"]
    answers, verdicts = SMALL.answering(model), SMALL.judging(model)
    best = min(max(answers / n, verdicts / (8 - n)) for n in range(1, 8))
    found = Machine(8, model, model, "split").hours(SMALL)
    assert found == pytest.approx(2 * best / 3600)
    assert found >= Machine(8, model, model).hours(SMALL)
    assert Machine(8, model, model).dollars(SMALL) == pytest.approx(
        Machine(8, model, model).hours(SMALL) * 8 * 2.99, rel=1e-3
    )


def test_longer_answers_take_longer_in_every_part() -> None:
    longer = replace(SMALL, lengths=Lengths(answer=1024))
    model = KNOWN["8b"]
    assert longer.answering(model) > 4 * SMALL.answering(model)
    assert longer.judging(model) > SMALL.judging(model)


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


@pytest.mark.parametrize(
    "words",
    [
        "--machine=8 8b 9b shared",
        "--machine=8 8b 8b apart",
        "--machine=1 70b-fp8 8b shared",
        "--measured=mine:1:256/128=98",
        "--measured=mine",
        "--repeated=2",
        "--prompts=0",
    ],
)
def test_what_cannot_be_read_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        scale.main([words])
    assert ended.value.code == 2
    assert words.partition("=")[0].strip("-") in capsys.readouterr().err
