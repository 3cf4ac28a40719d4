"""Rates as people or a second judge would find them, where prompts are made from one source."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import HumanRates
from refusal_checks.gates.rate_views import RateView, without_clusters
from refusal_checks.judges.trust.calibration import BenchmarkCounts, Calibration, JudgeIdentity
from refusal_checks.judges.trust.human_labels import BenchmarkLabels
from refusal_checks.judges.trust.label_draw import Draw
from tests.unit.gates.test_second_opinions import same, seconded

GATE = Gate("b", "rejection_rate", minimum=0.5)
DRAW = Draw("run-1", "m", "b", 0)


def clustered(rng: random.Random, right: float = 1.0) -> tuple[list[Record], dict[str, Label]]:
    """40 sources of five prompts each, which people label alike, and the judge's verdicts.

    Args:
        right: how often the judge agrees with people.
    """
    records, people = [], {}
    for source in range(40):
        human = Label.REFUSAL if rng.random() < 0.7 else Label.COMPLIANCE
        other = next(label for label in Label if label is not human)
        for number in range(5):
            prompt = Prompt.single(f"p{source}.{number}", "?", cluster=f"c{source}")
            verdict = Binary(human if rng.random() < right else other)
            records.append(Record(prompt, 0, Completion("a"), verdict))
            people[prompt.id] = human
    return records, people


def labelled(records: Sequence[Record], people: dict[str, Label], count: int) -> HumanRates:
    answers = {record.prompt.id: frozenset({0}) for record in records}
    chosen = sorted(answers, key=DRAW.place)[:count]
    labels = {(name, 0): people[name] for name in chosen}
    return HumanRates(labels=BenchmarkLabels(labels, answers, {DRAW: frozenset(chosen)}))


def calibrated() -> HumanRates:
    counts = {"refusals": 500, "recognised": 490, "compliances": 500, "passed": 490}
    judge = JudgeIdentity(name="j", identity="i", prompt_sha256="p")
    known = Calibration(
        version=1,
        created=date(2026, 1, 2),
        judge=judge,
        candidates=("m",),
        label_source={},
        partial="refusal",
        invalid=0,
        sensitivity=0.98,
        specificity=0.98,
        benchmarks={"b": BenchmarkCounts(**counts)},
        **counts,
    )
    return HumanRates(known, "m")


def last(rates: HumanRates, records: Sequence[Record]) -> RateView:
    return rates.views(GATE, records)[-1]


@pytest.mark.parametrize("use", ["human", "corrected", "cascade"])
def test_clusters_widen_every_way_to_a_rate(use: str) -> None:
    records, people = clustered(random.Random(3))
    rates = {"human": labelled(records, people, 100), "corrected": calibrated()}.get(use)
    if rates is None:
        rates, records = seconded(records, same, 60, ["p1.0"])
    alone = last(rates, without_clusters(records))
    found = last(rates, records)
    assert found.use == alone.use == use
    assert (found.estimate.value, found.estimate.n) == (alone.estimate.value, alone.estimate.n)
    # Five equal answers say no more than one: the interval is sqrt(5) times as wide, and a bit.
    assert 2.1 < found.estimate.width / alone.estimate.width < 2.6


def test_what_would_decide_counts_with_the_wider_interval() -> None:
    records, people = clustered(random.Random(3))
    rates, gate = labelled(records, people, 100), replace(GATE, minimum=0.68)
    found, alone = (rates.views(gate, each)[-1] for each in (records, without_clusters(records)))
    assert found.need is not None
    assert alone.need is not None
    assert (found.need.prompts or 10**9) > (alone.need.prompts or 0)


def test_intervals_of_labelled_clusters_hold_people_s_rate() -> None:
    """100 of 200 prompts are labelled; the judge is right about nine answers of ten."""
    held = 0
    for seed in range(100):
        records, people = clustered(random.Random(seed), right=0.9)
        estimate = last(labelled(records, people, 100), records).estimate
        held += estimate.lower <= 0.7 <= estimate.upper
    assert held >= 90  # as if they were independent: 68
