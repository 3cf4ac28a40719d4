"""How well a judge agrees with people's labels of recorded answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from refusal_checks.core.judgements import Binary, Label, PartialCount
from refusal_checks.core.labelling import LEAST
from refusal_checks.core.records import Record
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

WORST = 3
"""The most prompt types to name."""


class LabelPair(NamedTuple):
    """People's and a judge's verdict on an answer, with the prompt's type or empty."""

    human: Label
    judge: Label
    type: str = ""


@dataclass(frozen=True)
class JudgeAgreement:
    """A judge's agreement with people on ``n`` answers; None where they have no such answers.

    Attributes:
        kappa: Cohen's kappa, in [-1, 1]; None if people use one class only.
        sensitivity: share of people's refusals that the judge calls refusals.
        specificity: share of people's compliances that the judge calls compliances.
    """

    n: int
    kappa: Estimate | None
    sensitivity: Estimate | None
    specificity: Estimate | None


def pair_labels(
    records: Iterable[Record], partial: PartialCount
) -> Iterator[tuple[tuple[str, int], LabelPair]]:
    """Yield recorded answers that have a label and a verdict, by prompt and number.

    Args:
        partial: what partial refusals count as.
    """
    people = LabelsJudge()
    # People's partial refusals count as the judge's do; else the two differ by the setting.
    people.partial = partial
    for record in records:
        prompt, verdict = record.prompt, record.judgement
        if record.completion is None or not isinstance(verdict, Binary):
            continue
        label = people.judge_offline(prompt, record.completion)
        human = people.apply_settings(prompt, label)
        if isinstance(human, Binary):
            type_ = prompt.groups.get("category", prompt.groups.get("type", ""))
            place = prompt.transcript, record.sample
            yield place, LabelPair(human.label, verdict.label, type_)


def measure_agreement(
    answers: Collection[LabelPair], level: float = 0.95
) -> dict[str, JudgeAgreement]:
    """The agreement on all answers, under an empty name, and on the types with the worst.

    Types of fewer than ``LEAST`` answers are left out.
    """
    by_type: dict[str, list[LabelPair]] = {}
    for answer in answers:
        by_type.setdefault(answer.type, []).append(answer)
    wrong = {
        name: sum(answer.human is not answer.judge for answer in own) / len(own)
        for name, own in by_type.items()
        if name and len(own) >= LEAST
    }
    worst = sorted(filter(wrong.get, wrong), key=wrong.__getitem__, reverse=True)
    found = {"": _measure([*answers], level)} if answers else {}
    return found | {name: _measure(by_type[name], level) for name in worst[:WORST]}


def _measure(answers: Sequence[LabelPair], level: float) -> JudgeAgreement:
    cells = np.zeros((2, 2))
    for human, judge, _ in answers:
        cells[int(human is Label.REFUSAL), int(judge is Label.REFUSAL)] += 1
    (passed, _), (_, recognised) = cells
    compliances, refusals = map(int, cells.sum(axis=1))
    # With one class alone, chance explains all agreement: kappa is 0 / 0.
    kappa = _kappa(cells, level) if compliances and refusals else None
    sensitivity, specificity = None, None
    if refusals:
        sensitivity = wilson(recognised / refusals, refusals, level)
    if compliances:
        specificity = wilson(passed / compliances, compliances, level)
    return JudgeAgreement(len(answers), kappa, sensitivity, specificity)


def _kappa(cells: Any, level: float) -> Estimate:
    """Cohen's kappa, with an interval that holds it at least as often as ``level`` says.

    As in C. J. Clopper and E. S. Pearson's interval of a share, each end is a quantile with one
    more answer on its side: on which people and judge agree, or on which they differ.

    Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20 (1960), equation 1.
    """
    agreed, tail, n = np.eye(2), (1 - level) / 2, int(cells.sum())
    value = float(_kappas(cells / n))
    ends = []
    for more, point in ((1 - agreed, tail), (agreed, 1 - tail)):
        # Seeded, so that equal input gives equal intervals.
        rng = np.random.default_rng(0)
        shares = rng.dirichlet((cells + more / 2).ravel(), 10_000)
        ends.append(float(np.quantile(_kappas(shares.reshape(-1, 2, 2)), point)))
    return Estimate(value, min(value, ends[0]), max(value, ends[1]), n)


def _kappas(shares: Any) -> Any:
    agreed = np.trace(shares, axis1=-2, axis2=-1)
    by_chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    return np.clip((agreed - by_chance) / (1 - by_chance), -1, 1)
