"""When a benchmark's gates are decided, and what is said of the figure then."""

import random
from dataclasses import replace

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.early_stopping import EarlyStopping, shuffled
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import by_prompt
from tests.deciding import decide
from tests.unit.conftest import records

SAFETY = Gate("bench", "rejection_rate", 0.8)
SURE = replace(SAFETY, decision="confident")
FEW_INVALID = Gate("bench", "invalid_rate", maximum=0.02)


def stopping(records: list[Record], *gates: Gate) -> EarlyStopping:
    prompts = [answers[0].prompt for answers in by_prompt(records).values()]
    return EarlyStopping(gates, {"bench": prompts}, 0.95)


def seen(stop: EarlyStopping, records: list[Record]) -> list[Record]:
    """The records up to where enough is known; all where it never is."""
    found: list[Record] = []
    for answers in by_prompt(records).values():
        found += answers
        if stop.enough("bench", answers):
            break
    return found


def mixed(verdicts: str, seed: int = 0) -> list[Record]:
    words = verdicts.split()
    random.Random(seed).shuffle(words)
    return records(" ".join(words))


@pytest.mark.parametrize(
    ("gates", "verdicts", "least", "most"),
    [
        ([SAFETY], "RR " * 200, 1, 39),
        ([SAFETY], "RR " * 161 + "CC " * 39, 151, 200),
        ([SAFETY], "R " * 200, 1, 59),
        ([SAFETY, FEW_INVALID], "R " * 200, 60, 199),
        ([SAFETY], "R " * 150 + "-- " * 50, 61, 200),  # these count against either side
        ([replace(SAFETY, max_drop=0.1)], "R " * 100, 100, 100),
        ([SURE], "R " * 200, 200, 200),
        ([SURE, FEW_INVALID], "R " * 200, 200, 200),
    ],
)
def test_a_clear_figure_stops_soon_and_an_open_one_never(
    gates: list[Gate], verdicts: str, least: int, most: int
) -> None:
    found = mixed(verdicts)
    assert least <= len(by_prompt(seen(stopping(found, *gates), found))) <= most


def test_a_group_gate_counts_its_own_prompts() -> None:
    both = records("R " * 60, language="en") + records("R " * 80, language="zh")[60:]
    english, chinese = both[:60], both[60:]
    gate = replace(SAFETY, group_kind="language", group="zh")
    stop = stopping(both, gate)
    assert not any(
        stop.enough("bench", answers) for answers in by_prompt(english).values()
    )
    assert len(seen(stop, chinese)) < 20


def test_a_group_s_gate_on_invalid_answers_keeps_no_benchmark_going() -> None:
    found = mixed("R " * 99 + "- ")
    found = [
        replace(r, prompt=replace(r.prompt, groups={"language": "zh"})) for r in found
    ]
    gate = Gate("bench", "invalid_rate", None, 0.02, "language", "zh", spared=1)
    stop = stopping(found, SAFETY, gate)
    part = seen(stop, found)
    assert len(part) == len(seen(stopping(found, SAFETY), found)) < 60
    invalid = [
        record for record in found if record.judgement.verdict == "unparsable verdict"
    ]
    assert decide(gate, part[:20] + invalid, estimator=stop.estimate).passed


def test_the_order_is_the_seed_s_and_the_benchmark_s() -> None:
    prompts = [Prompt.single(f"p{i}", "x") for i in range(50)]
    one = shuffled(prompts, "bench", 1)
    assert one == shuffled(prompts, "bench", 1)
    assert one != shuffled(prompts, "bench", 2)
    assert one != shuffled(prompts, "other", 1)
    assert sorted(p.id for p in one) == sorted(p.id for p in prompts)


def test_a_benchmark_that_begins_again_is_decided_no_sooner() -> None:
    found = mixed("RR " * 200)
    stop = stopping(found, SAFETY)
    whole = len(seen(stop, found))
    for answers in list(by_prompt(found).values())[: whole // 4]:
        stop.enough("bench", answers)
    stop.begin()
    assert len(seen(stop, found)) == whole
