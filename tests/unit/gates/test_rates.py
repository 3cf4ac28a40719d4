"""What people would say of a run: rates powered by labels."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.estimate_set import EstimateVariant
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.paired_scores import without_clusters
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges.trust.draws import Draw
from refusal_checks.judges.trust.labels import BenchmarkLabels
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.wording.verdicts import sentence
from tests.deciding import decide
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

GATE = Gate("b", "rejection_rate", minimum=0.5)
DRAW = Draw("run-1", "m", "b", 0)


def rates(
    judged: Sequence[Record],
    people: Callable[[str], Label],
    prompts: Callable[[list[str]], Sequence[str]] = lambda order: order,
    draw: Draw | None = DRAW,
) -> Evidence:
    """What people say of some of the prompts, chosen from all in the order of the draw."""
    answers: dict[str, frozenset[int]] = {}
    for record in judged:
        answers[record.prompt.id] = answers.get(record.prompt.id, frozenset()) | {
            record.sample
        }
    chosen = prompts(sorted(answers, key=DRAW.place))
    labels = {
        (name, sample): Binary(people(name))
        for name in chosen
        for sample in answers[name]
    }
    return Evidence(labels=BenchmarkLabels(labels, answers, {draw: frozenset(chosen)}))


def refused(name: str) -> Label:
    return Label.REFUSAL


def complied(name: str) -> Label:
    return Label.COMPLIANCE


def told(
    evidence: Evidence, records: Sequence[Record], gate: Gate = GATE
) -> Iterator[str]:
    """All views of a figure, which of them decides, and the verdict of a confident gate."""
    try:
        rate = evidence.rate(gate, records)
        rate.require_decided(gate)
    except EvaluationError as fault:
        yield f"error: {fault}"
        return
    for view in rate.views:
        figure = view.estimate
        yield f"{view.use}: {figure.value:.4f} [{figure.lower:.4f}, {figure.upper:.4f}]"
        ends = view.extremes and "extremes {:.4f} to {:.4f}".format(*view.extremes)
        shown = (
            ends,
            view.note,
            view.caution,
            view.need and f"need {view.need.prompts}",
        )
        yield from (f"    {each}" for each in shown if each)
    verdict = decide(
        replace(gate, decision="confident"), records, Rules(evidence=evidence)
    )
    used = rate.used.use if rate.used else "raw"
    yield f"{used} decides: {verdict.outcome}{verdict.missing and f', {verdict.missing}'}"


def listed(cases: Mapping[str, Iterable[str]]) -> str:
    text = (
        f"{case}:\n" + "\n".join(f"    {each}" for each in lines)
        for case, lines in cases.items()
    )
    return "\n".join(text)


def test_views(snapshot: SnapshotAssertion) -> None:
    thirty, hundred = records("R " * 30), records("R " * 100)
    halves = records("R " * 50 + "C " * 50)
    half = replace(GATE, minimum=0.52)
    hard = rates(
        halves,
        lambda name: Label.REFUSAL if int(name[1:]) <= 50 else Label.COMPLIANCE,
        lambda order: [name for name in order[:60] if int(name[1:]) <= 65],
    )
    cases = {
        "few labels that agree": told(rates(thirty, refused, lambda o: o[:9]), thirty),
        "few that contradict": told(rates(thirty, complied, lambda o: o[:7]), thirty),
        "the same of the other rate": told(
            rates(thirty, complied, lambda o: o[:7]),
            thirty,
            replace(GATE, metric="compliance_rate"),
        ),
        "the same, chosen": told(
            rates(thirty, complied, lambda o: o[:7], None), thirty
        ),
        "many that were chosen": told(
            rates(thirty, complied, lambda o: o[:20], None), thirty
        ),
        "all of the prompts": told(rates(thirty, complied, draw=None), thirty),
        "all of few prompts": told(rates(thirty[:8], complied, draw=None), thirty[:8]),
        "the first of the draw": told(
            rates(hundred, refused, lambda o: o[:60]), hundred
        ),
        "some skipped": told(rates(hundred, refused, lambda o: o[5:60]), hundred),
        "skipped ones decide": told(hard, halves, half),
        "skipped ones decide nothing sure": told(
            hard, halves, replace(half, decision="confident")
        ),
    }
    assert listed(cases) == snapshot


def clustered(rng: random.Random) -> tuple[list[Record], dict[str, Label]]:
    """40 sources of five prompts each, which people and the judge label alike."""
    records, people = [], {}
    for source in range(40):
        human = Label.REFUSAL if rng.random() < 0.7 else Label.COMPLIANCE
        for number in range(5):
            prompt = Prompt.single(f"p{source}.{number}", "?", cluster=f"c{source}")
            records.append(Record(prompt, 0, Completion("a"), Binary(human)))
            people[prompt.id] = human
    return records, people


def last(rates: Evidence, records: Sequence[Record]) -> EstimateVariant:
    return rates.rate(GATE, records).views[-1]


def require_wider(known: Evidence, records: Sequence[Record]) -> None:
    """Five equal answers say no more than one: the interval is sqrt(5) times as wide, and a bit."""
    alone, found = last(known, without_clusters(records)), last(known, records)
    assert found.use == alone.use == "human"
    assert (found.estimate.value, found.estimate.n) == (
        alone.estimate.value,
        alone.estimate.n,
    )
    assert 2.1 < found.estimate.width / alone.estimate.width < 2.6


def test_clusters_widen_a_rate_by_labels() -> None:
    records, people = clustered(random.Random(3))
    by_people = rates(records, people.__getitem__, lambda order: order[:100])
    require_wider(by_people, records)


METRIC = METRICS["rejection_rate"]


def test_changes(snapshot: SnapshotAssertion) -> None:
    """The judge repeats its verdicts, while people may say that a third of the refusals are none.

    They found 94% before.
    """
    judged = records("R " * 188 + "C " * 12)
    gate = Gate("b", "rejection_rate", max_drop=0.05)
    before = scores_of(judged)

    def people(refusals: int, n: int = 200) -> Evidence:
        return rates(
            judged,
            lambda name: (
                Label.REFUSAL if int(name[1:]) <= refusals else Label.COMPLIANCE
            ),
            lambda order: order[:n],
        )

    def viewed(value: float) -> Earlier:
        estimate = Estimate(value, value - 0.04, value + 0.04, 200)
        return Earlier(replace(before, labelled={gate.id: estimate}))

    def labelled_too(n: int) -> Earlier:
        labels = people(188, n).labels
        assert labels
        found = labels.scores(METRIC, judged)
        prompts = {
            name: replace(
                each, people={METRIC.name: found[name]} if name in found else {}
            )
            for name, each in before.prompts.items()
        }
        return Earlier(replace(before, prompts=prompts))

    cases = {
        "labels of this run alone": (gate, people(126), Earlier(before)),
        "more before": (gate, people(126), viewed(0.94)),
        "as many before": (gate, people(126), viewed(0.63)),
        "fewer before": (gate, people(126), viewed(0.5)),
        "labels of the earlier run alone": (gate, Evidence(), viewed(0.94)),
        "the same prompts": (gate, people(188, 120), labelled_too(120)),
        "the same prompts, fallen": (gate, people(126, 120), labelled_too(120)),
        "too few of the same prompts": (gate, people(188, 120), labelled_too(9)),
    }
    told = []
    for case, (asked, evidence, earlier) in cases.items():
        verdict = decide(asked, judged, Rules(evidence=evidence), earlier)
        assert verdict.passed is (verdict.outcome == "pass")
        told.append(f"{case}: {verdict.outcome}\n    {sentence(verdict)}")
        if verdict.need:
            told.append(f"    need {verdict.need.prompts}")
    assert "\n".join(told) == snapshot
