"""What people would say of a run: corrected rates, and rates powered by labels."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import date

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.gates.compare import Earlier
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.explain import sentence
from refusal_checks.gates.gate import Gate, Use
from refusal_checks.gates.rates import (
    Evidence,
    Noise,
    PairedScores,
    RateView,
    corrected,
    noise,
    without_clusters,
)
from refusal_checks.judges.cascade import Cascade, SecondOpinions
from refusal_checks.judges.trust.calibration import Calibration, JudgeIdentity
from refusal_checks.judges.trust.correction import (
    JudgeErrors,
    prediction_powered,
    rogan_gladen,
    with_settled,
)
from refusal_checks.judges.trust.labels import BenchmarkLabels, Draw, prompt_key
from refusal_checks.metrics import METRICS, by_prompt
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.reports.explain import remarks_on
from tests.deciding import decide
from tests.unit.gates.test_baseline import scores_of
from tests.unit.judges.test_cascade import FIRST, RULE, SECOND

Many = Callable[..., list[Record]]

ERRORS = JudgeErrors(refusals=100, recognised=80, compliances=100, passed=95)


def calibration(
    recognised: int = 80, passed: int = 95, of: int = 100, benchmark: str = ""
) -> Calibration:
    counts = {"refusals": of, "recognised": recognised, "compliances": of, "passed": passed}
    return Calibration(
        version=1,
        created=date(2026, 1, 2),
        judge=JudgeIdentity(name="j", identity="i", prompt_sha256="p"),
        candidates=("m",),
        label_source={},
        partial="refusal",
        invalid=0,
        sensitivity=recognised / of,
        specificity=passed / of,
        benchmarks={benchmark: JudgeErrors(**counts)} if benchmark else {},
        refusals=of,
        recognised=recognised,
        compliances=of,
        passed=passed,
    )


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
        answers[record.prompt.id] = answers.get(record.prompt.id, frozenset()) | {record.sample}
    chosen = prompts(sorted(answers, key=DRAW.place))
    labels = {(name, sample): people(name) for name in chosen for sample in answers[name]}
    return Evidence(labels=BenchmarkLabels(labels, answers, {draw: frozenset(chosen)}))


def refused(name: str) -> Label:
    return Label.REFUSAL


def complied(name: str) -> Label:
    return Label.COMPLIANCE


def human(records: list[Record], label: Label) -> dict[str, list[Record]]:
    relabelled = [replace(record, judgement=Binary(label)) for record in records]
    return by_prompt(relabelled)


def test_one_answer_a_prompt_is_corrected_by_rogan_and_gladen(records: Many) -> None:
    found = corrected(records("R " * 60 + "C " * 40 + "- " * 5), ERRORS, 0.95)
    assert found == rogan_gladen(0.6, 100, ERRORS)
    assert found.value == pytest.approx((0.6 + 0.95 - 1) / (0.8 + 0.95 - 1))


def test_of_several_answers_a_prompt_the_share_is_corrected(records: Many) -> None:
    found = corrected(records("RC " * 40 + "RR- " * 10), ERRORS, 0.9)
    assert found == rogan_gladen((40 * 0.5 + 10) / 50, 50, ERRORS, 0.9)


def test_what_cannot_be_corrected(records: Many) -> None:
    with pytest.raises(EvaluationError, match="none of 2 answers has a valid verdict"):
        corrected(records("- -"), ERRORS, 0.95)
    with pytest.raises(CalibrationError, match="carries no information"):
        corrected(records("R C"), JudgeErrors(100, 10, 100, 90), 0.95)


def test_labels_of_a_part_power_the_judges_rate(records: Many) -> None:
    judged = records("R " * 30 + "C " * 70)
    labelled = human(judged[:15], Label.REFUSAL) | human(judged[90:], Label.COMPLIANCE)
    found = PairedScores.of(METRICS["rejection_rate"], judged, labelled).estimate(0.95)
    assert found == prediction_powered(
        [1.0] * 15 + [0.0] * 10, [1.0] * 15 + [0.0] * 10, [1.0] * 15 + [0.0] * 60
    )
    assert found.n == 100


def test_labels_that_contradict_the_judge_move_the_rate(records: Many) -> None:
    judged = records("C " * 100)
    labelled = human(judged[:15], Label.REFUSAL) | human(judged[15:30], Label.COMPLIANCE)
    found = PairedScores.of(METRICS["rejection_rate"], judged, labelled).estimate(0.95)
    assert found.value == pytest.approx(0.5)
    complied = PairedScores.of(METRICS["compliance_rate"], judged, labelled).estimate(0.95)
    assert complied.value == pytest.approx(0.5)


def test_means_are_powered_too_and_answers_without_a_verdict_are_left_out(
    records: Many,
) -> None:
    judged = records("RC " * 20 + "RR " * 20 + "-- " * 10)
    labelled = human(judged[20:60], Label.REFUSAL)
    found = PairedScores.of(METRICS["mean_refusal_confidence"], judged, labelled).estimate(0.95)
    assert found.value == pytest.approx(1.0)
    assert found.n == 40


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
        probability = 0.6 if is_unsure else 0.99 * (one.judgement.label is Label.REFUSAL)
        first, said = replace(one.judgement, probability=probability), second(one)
        if not is_unsure and one.prompt.id not in drawn:
            return replace(one, judgement=first)
        votes = (Vote("bundled", first), Vote("J", said))
        return replace(one, judgement=said if is_unsure else first, votes=votes)

    return Evidence(second=SecondOpinions(CASCADE, drawn)), [*map(record, judged)]


def test_a_sample_corrects_the_rate_as_people_s_labels_do(records: Many) -> None:
    """The first judge is sure of all, and calls a quarter of the second one's refusals answers."""
    judged = records("R R R C C " * 40)
    given = {r.prompt.id: float(n % 5 < 4) for n, r in enumerate(judged)}

    def second(record: Record) -> Judgement:
        return REFUSAL if given[record.prompt.id] else COMPLIANCE

    rates, seen = seconded(judged, second, 50)
    raw, corrected = rates.rate(GATE, seen).views
    assert (raw.use, raw.estimate.value) == ("raw", 0.6)
    assert corrected.use == "cascade"
    first = [float(r.judgement.verdict == "refusal") for r in judged]
    people = list(given.values())[:50]
    assert corrected.estimate == prediction_powered(people, first[:50], first[50:])
    assert corrected.estimate.value == pytest.approx(0.8)
    assert corrected.note == "J decided 0 prompts and read 50 of the others"
    assert rates.rate(GATE, seen).used == corrected
    assert rates.rate(replace(GATE, use="raw"), seen).used is None
    assert corrected.need is not None


@pytest.mark.parametrize("unsure", [[], ["p3"]])
def test_a_second_judge_that_read_all_is_the_rate(records: Many, unsure: list[str]) -> None:
    rates, seen = seconded(records("R R C C C C"), lambda r: REFUSAL, 6, unsure)
    _, corrected = rates.rate(GATE, seen).views
    assert corrected.estimate == wilson(1.0, 6)


def told(evidence: Evidence, records: Sequence[Record], gate: Gate = GATE) -> Iterator[str]:
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
        shown = (ends, view.note, view.caution, view.need and f"need {view.need.prompts}")
        yield from (f"    {each}" for each in shown if each)
    verdict = decide(replace(gate, decision="confident"), records, Rules(evidence=evidence))
    used = rate.used.use if rate.used else "raw"
    yield f"{used} decides: {verdict.outcome}{verdict.missing and f', {verdict.missing}'}"


def test_views(records: Many, snapshot: SnapshotAssertion) -> None:
    thirty, hundred = records("R " * 30), records("R " * 100)
    halves = records("R " * 50 + "C " * 50)
    group = [replace(r, prompt=replace(r.prompt, groups={"c": "c0"})) for r in records("R " * 40)]
    of_group = replace(GATE, group_kind="c", group="c0", use="corrected")
    known = calibration(99, benchmark="b")
    keys = [prompt_key(record.prompt.request) for record in group]
    own = known.model_copy(update={"prompts": {"b": dict.fromkeys(keys[:10], "1/1 0/0")}})
    wrong = known.model_copy(update={"prompts": {"b": dict.fromkeys(keys, "0/0 0/1")}})
    half = replace(GATE, minimum=0.52)
    hard = rates(
        halves,
        lambda name: Label.REFUSAL if int(name[1:]) <= 50 else Label.COMPLIANCE,
        lambda order: [name for name in order[:60] if int(name[1:]) <= 65],
    )
    others = records("R " * 170 + "C " * 30)
    unsure = [f"p{number}" for number in range(81, 101)]
    fifths, pairs = records("R C C C " * 20 + "C " * 20), records("R C " * 30)
    empty = [
        replace(r, judgement=Invalid(Reason.EMPTY_ANSWER)) if r.sample else r
        for r in records("RR CC " * 15)
    ]

    def broken(*names: str) -> Second:
        return lambda r: BROKEN if r.prompt.id in names else r.judgement

    def decided(record: Record) -> Judgement:
        return REFUSAL if record.prompt.id in unsure else record.judgement

    cases = {
        "few labels that agree": told(rates(thirty, refused, lambda o: o[:9]), thirty),
        "few that contradict": told(rates(thirty, complied, lambda o: o[:7]), thirty),
        "the same, chosen": told(rates(thirty, complied, lambda o: o[:7], None), thirty),
        "many that were chosen": told(rates(thirty, complied, lambda o: o[:20], None), thirty),
        "all of the prompts": told(rates(thirty, complied, draw=None), thirty),
        "all of few prompts": told(rates(thirty[:8], complied, draw=None), thirty[:8]),
        "the first of the draw": told(rates(hundred, refused, lambda o: o[:60]), hundred),
        "some skipped": told(rates(hundred, refused, lambda o: o[5:60]), hundred),
        "skipped ones decide": told(hard, halves, half),
        "skipped ones decide nothing sure": told(hard, halves, replace(half, decision="confident")),
        "calibrated on no benchmark": told(Evidence(calibration(), "m"), halves),
        "calibrated on other answers": told(Evidence(calibration(74, 97)), others),
        "to be corrected so": told(
            Evidence(calibration(74, 97)), others, replace(GATE, use="corrected")
        ),
        "a group, calibrated on others": told(Evidence(known, "m"), group, of_group),
        "a group, calibrated on its own": told(Evidence(own, "m"), group, of_group),
        "a group of which the judge knows nothing": told(Evidence(wrong, "m"), group, of_group),
        "a second judge that decided some": told(*seconded(fifths, decided, 40, unsure)),
        "one that read few": told(*seconded(thirty, same, 9)),
        "one that read few and differs": told(*seconded(thirty, lambda r: COMPLIANCE, 9)),
        "one that left some open": told(*seconded(pairs, broken("p1", "p2"), 20, ["p30"])),
        "the same of a sure gate": told(
            *seconded(pairs, broken("p1", "p2"), 20, ["p30"]), replace(GATE, decision="confident")
        ),
        "one that left an unsure one open": told(*seconded(pairs, broken("p1"), 30, ["p1"])),
        "answers that nobody can judge": told(*seconded(empty, same, 20)),
    }
    text = (
        f"{case}:\n" + "\n".join(f"    {each}" for each in lines) for case, lines in cases.items()
    )
    assert "\n".join(text) == snapshot


def test_the_verdict_says_which_rate_decides(records: Many) -> None:
    rates, seen = seconded(records("R R R C C " * 40), lambda record: COMPLIANCE, 40)
    decided = decide(GATE, seen, Rules(evidence=rates))
    assert (decided.use, decided.passed) == ("cascade", False)
    assert "corrected by the second judge's sample" in sentence(decided)
    told = "\n".join(remark.text for remark in remarks_on(decided))
    assert "the figure corrected by the second judge's sample decides" in told


def test_intervals_hold_the_second_judge_s_rate() -> None:
    """300 prompts, a tenth unsure, a sample of 40; the first judge errs on 4% of the others."""
    random.seed(1)
    held = 0
    for _ in range(300):
        truth = [random.random() < 0.3 for _ in range(300)]
        unsure = [random.random() < (0.15 if refused else 0.08) for refused in truth]
        first = [refused != (random.random() < 0.04) for refused in truth]
        drawn = set(random.sample(range(300), 40))
        rest = [n for n in range(300) if not unsure[n]]
        known = [n for n in rest if n in drawn]
        sampled = prediction_powered(
            [float(truth[n]) for n in known],
            [float(first[n]) for n in known],
            [float(first[n]) for n in rest if n not in drawn],
        )
        settled = [truth[n] for n in range(300) if unsure[n]]
        found = with_settled(sampled, wilson(sum(settled) / len(settled), len(settled)))
        held += found.lower <= 0.3 <= found.upper
    assert held / 300 >= 0.93


def test_parts_that_are_equal_have_no_leg_between_them() -> None:
    rest, settled = Estimate(0.5, 0.4, 0.6, 100), Estimate(0.5, 0.5, 0.5, 100)
    found = with_settled(rest, settled)
    assert (found.value, found.n) == (0.5, 200)
    assert [found.lower, found.upper] == pytest.approx([0.45, 0.55])


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


def labelled(records: Sequence[Record], people: dict[str, Label], count: int) -> Evidence:
    return rates(records, people.__getitem__, lambda order: order[:count])


def last(rates: Evidence, records: Sequence[Record]) -> RateView:
    return rates.rate(GATE, records).views[-1]


@pytest.mark.parametrize("use", ["human", "corrected", "cascade"])
def test_clusters_widen_every_way_to_a_rate(use: str) -> None:
    records, people = clustered(random.Random(3))
    if use == "cascade":
        known, records = seconded(records, same, 60, ["p1.0"])
    elif use == "human":
        known = labelled(records, people, 100)
    else:
        known = Evidence(calibration(490, 490, 500, "b"), "m")
    alone, found = last(known, without_clusters(records)), last(known, records)
    assert found.use == alone.use == use
    assert (found.estimate.value, found.estimate.n) == (alone.estimate.value, alone.estimate.n)
    # Five equal answers say no more than one: the interval is sqrt(5) times as wide, and a bit.
    assert 2.1 < found.estimate.width / alone.estimate.width < 2.6


def test_what_would_decide_counts_with_the_wider_interval() -> None:
    records, people = clustered(random.Random(3))
    known, gate = labelled(records, people, 100), replace(GATE, minimum=0.68)
    found, alone = (
        known.rate(gate, each).views[-1] for each in (records, without_clusters(records))
    )
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


METRIC = METRICS["rejection_rate"]


@pytest.mark.parametrize(
    ("times", "figure", "expected"),
    [
        (["R R C C"] * 3, wilson(0.5, 4), Noise(3, 4, 0, 0.0, 0.0)),
        # Figures of 2 of 4, 1 of 5 and 4 of 5: more than the interval allows for.
        (
            ["R R C C -", "R C C C C", "R R C R R"],
            Estimate(0.5, 0.1, 0.9, 4),
            Noise(3, 5, 3, 0.3, 1),
        ),
        (["R C", "R R"], Estimate(0.5, 0.5, 0.5, 2), Noise(2, 2, 1, 0.5 * 2**-0.5, 0.0)),
    ],
)
def test_a_judge_s_noise(
    records: Many, times: list[str], figure: Estimate, expected: Noise
) -> None:
    found = noise(METRIC, list(map(records, times)), figure, 0.95)
    assert found
    assert asdict(found) == pytest.approx(asdict(expected))
    assert noise(METRIC, [records("R"), records("-")], wilson(1.0, 1), 0.95) is None


def test_changes(records: Many, snapshot: SnapshotAssertion) -> None:
    """The judge repeats its verdicts, while people may say that a third of the refusals are none.

    They found 94% before.
    """
    judged = records("R " * 188 + "C " * 12)
    gate = Gate("b", "rejection_rate", max_drop=0.05)
    before = scores_of(judged)

    def people(refusals: int, n: int = 200) -> Evidence:
        return rates(
            judged,
            lambda name: Label.REFUSAL if int(name[1:]) <= refusals else Label.COMPLIANCE,
            lambda order: order[:n],
        )

    def viewed(value: float, use: Use = "human") -> Earlier:
        view = Estimate(value, value - 0.04, value + 0.04, 200)
        return Earlier(replace(before, views={gate.id: {use: view}}))

    def labelled_too(n: int) -> Earlier:
        labels = people(188, n).labels
        assert labels
        found = labels.scores(METRIC, judged)
        prompts = {
            name: replace(each, people={METRIC.name: found[name]} if name in found else {})
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
        "a calibration before": (gate, people(126, 120), viewed(0.94, "corrected")),
        "since the anchor": (
            replace(gate, is_total=True),
            people(126, 120),
            Earlier(before, anchor=viewed(0.94, "corrected")),
        ),
    }
    told = []
    for case, (asked, evidence, earlier) in cases.items():
        verdict = decide(asked, judged, Rules(evidence=evidence), earlier)
        assert verdict.passed is (verdict.outcome == "pass")
        told.append(f"{case}: {verdict.outcome}\n    {sentence(verdict)}")
        if verdict.need:
            told.append(f"    need {verdict.need.prompts}")
    assert "\n".join(told) == snapshot
