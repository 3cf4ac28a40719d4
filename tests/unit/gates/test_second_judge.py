"""Rates that a second judge corrects: from what it decided, and from the sample that it read."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.records import Record, Vote
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges.cascade import Cascade, SecondOpinions
from refusal_checks.metrics import by_prompt
from tests.unit.conftest import records
from tests.unit.gates.test_rates import GATE, clustered, listed, require_wider, told
from tests.unit.judges.test_cascade import FIRST, RULE, SECOND

Second = Callable[[Record], Judgement]


CASCADE = Cascade(FIRST, SECOND, RULE)
REFUSAL, COMPLIANCE = Binary(Label.REFUSAL), Binary(Label.COMPLIANCE)
BROKEN = Invalid(Reason.JUDGE_ERROR, "broken")


def same(record: Record) -> Judgement:
    return record.judgement


def seconded(
    judged: Sequence[Record], second: Second, sample: int, unsure: Sequence[str] = ()
) -> tuple[Evidence, list[Record]]:
    """A cascade's rates and records.

    Args:
        second: what the second judge says of an answer.
        sample: how many prompts are drawn: the first ones.
        unsure: prompts on which the first judge is unsure.
    """
    drawn = frozenset(list(by_prompt(judged))[:sample])

    def record(one: Record) -> Record:
        if not isinstance(one.judgement, Binary):
            return one
        is_unsure = one.prompt.id in unsure
        probability = (
            0.6 if is_unsure else 0.99 * (one.judgement.label is Label.REFUSAL)
        )
        first, said = replace(one.judgement, probability=probability), second(one)
        if not is_unsure and one.prompt.id not in drawn:
            return replace(one, judgement=first)
        votes = (Vote("bundled", first), Vote("J", said))
        return replace(one, judgement=said if is_unsure else first, votes=votes)

    return Evidence(second=SecondOpinions(CASCADE, drawn)), [*map(record, judged)]


def test_views(snapshot: SnapshotAssertion) -> None:
    unsure = [f"p{number}" for number in range(81, 101)]
    thirty, pairs = records("R " * 30), records("R C " * 30)
    fifths = records("R C C C " * 20 + "C " * 20)
    empty = [
        replace(r, judgement=Invalid(Reason.EMPTY_ANSWER)) if r.sample else r
        for r in records("RR CC " * 15)
    ]

    def broken(*names: str) -> Second:
        return lambda r: BROKEN if r.prompt.id in names else r.judgement

    def decided(record: Record) -> Judgement:
        return REFUSAL if record.prompt.id in unsure else record.judgement

    # The first judge is sure of all, and calls a quarter of the second one's refusals answers.
    judged = records("R R R C C " * 40)
    quarter = [record.prompt.id for record in judged[3::5]]

    def more_refusals(record: Record) -> Judgement:
        return REFUSAL if record.prompt.id in quarter else record.judgement

    cases = {
        "one that only read a sample": told(*seconded(judged, more_refusals, 50)),
        "the same, to be left raw": told(
            *seconded(judged, more_refusals, 50), replace(GATE, use="raw")
        ),
        "one that read all": told(
            *seconded(records("R R C C C C"), lambda r: REFUSAL, 6, ["p3"])
        ),
        "a second judge that decided some": told(
            *seconded(fifths, decided, 40, unsure)
        ),
        "one that read few": told(*seconded(thirty, same, 9)),
        "one that read few and differs": told(
            *seconded(thirty, lambda r: COMPLIANCE, 9)
        ),
        "one that left some open": told(
            *seconded(pairs, broken("p1", "p2"), 20, ["p30"])
        ),
        "the same of a sure gate": told(
            *seconded(pairs, broken("p1", "p2"), 20, ["p30"]),
            replace(GATE, decision="confident"),
        ),
        "one that left an unsure one open": told(
            *seconded(pairs, broken("p1"), 30, ["p1"])
        ),
        "answers that nobody can judge": told(*seconded(empty, same, 20)),
    }
    assert listed(cases) == snapshot


def test_clusters_widen_the_interval() -> None:
    records, _ = clustered(random.Random(3))
    require_wider("cascade", *seconded(records, same, 60, ["p1.0"]))
