"""The summary of a run: everything known of it but the texts of its prompts and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from refusal_checks.benchmarks import attacks
from refusal_checks.core import extensions
from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record, is_disputed
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Binary, Chosen, Invalid, Label, Reason
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.cascade import SecondAsked
from refusal_checks.judges.kinds.refusal import RefusalCategory
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.metrics import (
    METRICS,
    Metric,
    by_prompt,
    rejection_rate,
    safety_score,
    score_all,
)
from refusal_checks.metrics.statistics.descriptive import Distribution, distribution
from refusal_checks.metrics.statistics.intervals import Estimate, pooled
from refusal_checks.results.manifest import Manifest

Scores = Mapping[str, Mapping[str, float]]  # scores by metric and prompt id
Answers = Mapping[str, Sequence[Record]]  # records by prompt id
Figures = Mapping[str, Estimate]  # figures by metric


@dataclass(frozen=True)
class BenchmarkSummary:
    prompts: int
    answers: int
    figures: Figures
    # figures by kind and group; a metric without a valid verdict is absent
    groups: Mapping[str, Mapping[str, Figures]]
    invalid: Mapping[str, int]  # answers without a verdict, by reason
    planned: int = (
        0  # prompts that the benchmark has; more than prompts if it was stopped early
    )
    kind: str = ""  # what the prompts ask for: safety, sanity or sensitive
    # answers on which the valid votes of several judges differ; None if no answer has two valid
    # votes
    disputed: int | None = None
    # see the function; empty where answers are not judged for refusal alone, and where judges
    # give verdicts alone
    refusal_categories: Mapping[str, int] = field(default_factory=dict)
    # answers to multiple-choice questions by who read the option: rules or a judge
    read_by: Mapping[str, int] = field(default_factory=dict)
    # score by prompt id, if answers are rated; judge_scores for each of several judges,
    # distributions by category
    safety_scores: Mapping[str, float] = field(default_factory=dict)
    judge_scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # benchmarks whose prompts are all among this one's
    # the attack on its prompts, or attacks for each prompt's worst; empty for none
    attack: str = ""
    plain: str = ""  # the benchmark that is attacked
    # refusal confidence by prompt id, if it is under attack or attacked
    confidences: Mapping[str, float] = field(default_factory=dict)
    # how often the second judge of a cascade was asked; None where there is none
    second: SecondAsked | None = None
    cut: int = 0  # answers of which the judge did not see all
    # answers by language, of those in which no check or calibration measured the judge; counted
    # among the first 1,000
    unmeasured: Mapping[str, int] = field(default_factory=dict)
    repeats: int = 0  # prompts that repeat another one's text, and no cluster says so
    # how many harmless prompts have the same answer, if it is half of ten or more, and its text
    alike: int = 0
    alike_answer: str = ""
    # the verdict that all answers have, of 20 prompts or more and by a scale; empty if they differ
    one_value: str = ""

    @property
    def is_repeated(self) -> bool:
        """True if its answers are those of other benchmarks: under each prompt's worst attack."""
        return self.attack == attacks.ALL

    @property
    def saved(self) -> float:
        return 1 - self.prompts / self.planned if self.planned else 0.0


JUDGE_QUOTED = "the judge answered, for example: "
"""How the one note begins that quotes a text."""


@dataclass
class RunSummary:
    """Figures, verdicts, notes and manifest of a run; filled while the run goes on.

    Attributes:
        verdicts: verdicts by id of the gate.
        errors: reasons why gates have no verdict, by id of the gate.
    """

    manifest: Manifest = field(default_factory=Manifest)
    benchmarks: dict[str, BenchmarkSummary] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # on how the verdicts came about
    failure: str = ""  # why the evaluation ended early; empty if it did not
    # what failed in the session and no verdict says why, such as tests: while there is something,
    # nothing is decided
    unexplained: list[str] = field(default_factory=list)
    judge: JudgeCheck | None = (
        None  # result of its own check; None if it was not checked
    )
    judge_idle: str = ""  # why there was nothing to check; empty if there was
    judge_error: str = ""  # why the check came to no result; empty if it did
    # why nothing tells how right the judges of refusal are, and what to do
    untested: str = ""
    # what is stored of a server and was not verified, though it may decide
    unverified: str = ""
    # what further judges judge by, whom no check tests, by benchmark; see ``VerdictBase.scale``
    untested_scales: dict[str, str] = field(default_factory=dict)
    # what judges of ratings made of answers whose order is known, by benchmark
    rated: dict[str, str] = field(default_factory=dict)
    # what to do about judges that could not judge, without any text of theirs
    unusable: list[str] = field(default_factory=list)
    balance: Balance | None = None
    # False alarms to expect if every figure lay exactly on its bound and nothing corrected for it:
    # gates called breached, and tests that fail.
    expected_breaches: float = 0.0
    expected_failures: float = 0.0

    def note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)

    def note_unread(self, records: Sequence[Record], forms: Iterable[str]) -> None:
        """Add a note, once and at the top, that quotes an answer in which no verdict was found."""
        unread = [
            r.judgement
            for r in records
            if r.judgement.verdict == Reason.UNPARSABLE_VERDICT
        ]
        known = any(note.startswith(JUDGE_QUOTED) for note in self.notes)
        if unread and isinstance(unread[0], Invalid) and not known:
            said = f"'{clean(unread[0].detail, 120)}'; expected {', '.join(filter(None, forms))}"
            self.notes.insert(0, f"{JUDGE_QUOTED}{said}; asked twice")


def summarise(
    records: Sequence[Record],
    level: float,
    scores: Scores | None = None,
    planned: int = 0,
    kind: str = "",
) -> BenchmarkSummary:
    """All figures of one benchmark's records, overall and by group, with intervals at a level.

    Scores are computed unless they are given; ``planned`` prompts may be more than were evaluated.
    """
    scores, answers = scores or score_all(records), by_prompt(records)
    prompts = [several[0].prompt for several in answers.values()]
    groups: dict[str, dict[str, Figures]] = {}
    for name, group in sorted(
        {pair for prompt in prompts for pair in prompt.groups.items()}
    ):
        ids = [prompt.id for prompt in prompts if prompt.groups.get(name) == group]
        groups.setdefault(name, {})[group] = _figures(scores, answers, ids, level)
    disputed = [found for r in records if (found := is_disputed(r.votes)) is not None]
    votes: dict[str, list[Record]] = {}
    for record in records:
        for vote in record.votes:
            votes.setdefault(vote.judge, []).append(
                replace(record, judgement=vote.judgement)
            )
    judges = {judge: safety_score.scores(rated) for judge, rated in votes.items()}
    safety, by_category = safety_score.scores(records), dict[str, list[float]]()
    for prompt_id, score in safety.items():
        category = answers[prompt_id][0].prompt.groups.get("category", "")
        by_category.setdefault(category, []).append(score)
    limits = safety_score.lowest, safety_score.highest
    texts = [_folded(prompt.transcript) for prompt in prompts if not prompt.cluster]
    return BenchmarkSummary(
        prompts=len(answers),
        answers=len(records),
        figures=_figures(scores, answers, list(answers), level),
        groups=groups,
        invalid=dict(
            Counter(
                str(r.judgement.reason)
                for r in records
                if isinstance(r.judgement, Invalid)
            )
        ),
        planned=max(planned, len(answers)),
        kind=kind,
        disputed=sum(disputed) if disputed else None,
        refusal_categories=refusal_categories(records),
        read_by=dict(
            Counter(
                r.judgement.read_by for r in records if isinstance(r.judgement, Chosen)
            )
        ),
        safety_scores=safety,
        judge_scores={judge: by_id for judge, by_id in judges.items() if by_id},
        distributions={
            name: distribution(each, *limits)
            for name, each in sorted(by_category.items())
        },
        cut=sum(record.judgement.cut > 0 for record in records),
        repeats=len(texts) - len({*texts}),
        **_alike(records, len(answers)),
        one_value=_one_value(records, len(answers)),
    )


def _folded(text: str) -> int:
    """The same for texts that differ in nothing but case and white space."""
    return hash(" ".join(text.casefold().split()))


def _alike(records: Sequence[Record], prompts: int) -> dict[str, Any]:
    """The answer that half of ten harmless prompts or more share: ``alike`` and its text."""
    said = [
        (record.prompt.id, record.completion.text)
        for record in records
        if record.completion and not isinstance(record.judgement, Invalid)
        if record.prompt.kind is Kind.SANITY
    ]
    found = Counter(
        answer for _, answer in {(name, _folded(text)) for name, text in said}
    )
    ((same, number),) = found.most_common(1) or [(0, 0)]
    if not 2 * number >= prompts >= 10:
        return {}
    shown = next(text for _, text in said if _folded(text) == same)
    return {"alike": number, "alike_answer": clean(shown, 60)}


def _one_value(records: Sequence[Record], prompts: int) -> str:
    """The verdict of a scale that all answers to 20 prompts or more have; empty if they differ."""
    valid = [
        record.judgement
        for record in records
        if not isinstance(record.judgement, Invalid)
    ]
    verdicts = {judgement.verdict for judgement in valid}
    if prompts < 20 or len(verdicts) != 1 or not valid[0].scale:
        return ""
    return verdicts.pop()


UNNAMED, COMPLIES = "unnamed", "none"


def refusal_categories(records: Iterable[Record]) -> dict[str, int]:
    """Answers by the way of refusing that the judge names, in the order of ``RefusalCategory``.

    ``UNNAMED`` is a refusal without one, ``COMPLIES``, which comes last, compliance; ways that no
    answer has are left out.
    """
    judged = [r.judgement for r in records if isinstance(r.judgement, Binary)]
    found = Counter(
        (each.category or UNNAMED) if each.label is Label.REFUSAL else COMPLIES
        for each in judged
    )
    known = [*map(str, RefusalCategory), *sorted(found.keys() - {UNNAMED, COMPLIES})]
    order = dict.fromkeys([*known, UNNAMED, COMPLIES])
    return {name: found[name] for name in order if found[name]}


def _figures(
    scores: Scores, answers: Answers, ids: Sequence[str], level: float
) -> dict[str, Estimate]:
    figures = {}
    for name, by_id in scores.items():
        scored = [prompt for prompt in ids if prompt in by_id]
        values = [by_id[prompt] for prompt in scored]
        if values and type(METRICS[name]) is Metric:
            prompts = [answers[prompt][0].prompt for prompt in scored]
            figures[name] = METRICS[name].figure(values, prompts, level)
        elif values:  # not a share or a mean of its prompts' scores
            with suppress(EvaluationError):
                records = [record for prompt in ids for record in answers[prompt]]
                figures[name] = METRICS[name].estimate(records, level)
    return figures


METRIC = rejection_rate.name  # the metric of both kinds of refusal


@dataclass(frozen=True)
class Balance:
    """A run as one point of a plot; the best one is (0, 0)."""

    under_refusal: (
        Estimate  # share of the safety benchmarks' prompts that are not rejected
    )
    over_refusal: Estimate  # share of the sanity benchmarks' prompts that are rejected


def distinct(benchmarks: Mapping[str, BenchmarkSummary]) -> dict[str, BenchmarkSummary]:
    """Benchmarks without parts of others and those under attack: each prompt counts once."""
    parts = {part for each in benchmarks.values() for part in each.parts}
    return {
        name: each
        for name, each in benchmarks.items()
        if name not in parts and not each.attack
    }


def balance(
    benchmarks: Iterable[tuple[str, Figures]], confidence: float
) -> Balance | None:
    """Under-refusal and over-refusal of a run; None unless it has benchmarks of both kinds.

    Benchmarks, given by kind and figures, are pooled: every prompt counts the same.
    """
    rates: dict[str, list[Estimate]] = {}
    for kind, figures in benchmarks:
        if METRIC in figures:
            rates.setdefault(kind, []).append(figures[METRIC])
    if not {Kind.SAFETY.value, Kind.SANITY.value} <= rates.keys():
        return None
    refused, over = (
        pooled(rates[kind.value], confidence) for kind in (Kind.SAFETY, Kind.SANITY)
    )
    under = Estimate(1 - refused.value, 1 - refused.upper, 1 - refused.lower, refused.n)
    return Balance(under, over)


def require_metrics(summary: RunSummary) -> None:
    """Raise ValueError if a gate is on a metric of an extension that is not loaded."""
    extensions.known()
    used = {verdict.gate.metric for verdict in summary.verdicts.values()}
    for name in sorted(used - METRICS.keys()):
        brought = ", ".join(summary.manifest.extensions) or "another version"
        raise ValueError(
            f"its metric {name} is not known here. Install the extension that has it, or load its "
            f"file with `refusal-checks --thresholds FILE ...`; the run used {brought}"
        )
