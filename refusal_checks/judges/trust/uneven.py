"""Where a judge errs more than elsewhere, by what should not matter to it.

Answers with labels are divided by their length, language, category and candidate; each part is
compared with all other answers. A judge that errs on one part more than on the rest moves the
figures of that part, whatever its errors are on the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from refusal_checks.core.text import count
from refusal_checks.judges.trust.correction import LEAST
from refusal_checks.metrics.statistics.intervals import Estimate, bounded_mean, units

LEVEL = 0.05
"""The risk, over all comparisons of a judge, of naming any part that is like the rest."""

NAMED = 3
"""The most parts that a sentence names."""

LENGTHS = 3
"""Number of parts by length, each of as many answers as the others."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer with a person's label and a judge's verdict.

    Attributes:
        prompt: answers to the same prompt are not independent of each other.
        human: the person's label.
        is_wrong: True if the judge's verdict is another.
        length: number of characters of the answer.
        language: ISO 639 code of the answer's language.
        category, candidate: empty if unknown.
    """

    prompt: str
    human: str
    is_wrong: bool
    length: int
    language: str
    category: str = ""
    candidate: str = ""


@dataclass(frozen=True, slots=True)
class PartErrors:
    """A judge's errors on a part of the labelled answers.

    Attributes:
        by: what the answers are divided by.
        name: the part.
        rate: share of wrong verdicts; answers to the same prompt count as one unit in its
            interval.
        elsewhere: share of wrong verdicts on all other answers.
        p: probability of so many more errors than elsewhere, if the part were like the rest. None
            where it or the rest has fewer than ``LEAST`` answers.
        is_more: True if p is significant among all of the judge's comparisons.
    """

    by: str
    name: str
    rate: Estimate
    elsewhere: float
    p: float | None
    is_more: bool = False


Divided = Mapping[str, Callable[[Compared], str]]


def errors_by_part(answers: Sequence[Compared]) -> tuple[PartErrors, ...]:
    """A judge's errors on each part of the answers; parts that are all answers are left out.

    Significance is Holm's over all parts: S. Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    parts = []
    for by, part_of in _divided(answers).items():
        names = Counter(map(part_of, answers))
        for name in sorted(names, key=_order):
            if name and len(names) > 1:
                is_in = [part_of(answer) == name for answer in answers]
                parts.append(_errors(by, name, answers, is_in))
    significant = _holm([part.p for part in parts])
    return tuple(
        replace(part, is_more=is_more)
        for part, is_more in zip(parts, significant, strict=True)
    )


def in_words(parts: Sequence[PartErrors]) -> str:
    """Say in a sentence where the judge errs more; empty without two parts to compare."""
    if all(part.p is None for part in parts):
        return ""
    nowhere = "it errs on no part of the answers significantly more than elsewhere"
    return where_more(parts) or f"{nowhere} ({_how(parts)})"


def _how(parts: Sequence[PartErrors]) -> str:
    compared = sum(part.p is not None for part in parts)
    return f"Holm's correction, {count(compared, 'comparison')}"


def where_more(parts: Sequence[PartErrors]) -> str:
    """Say in a sentence where the judge errs significantly more; empty if nowhere."""
    more = sorted(
        (part for part in parts if part.is_more),
        key=lambda part: part.elsewhere - part.rate.value,
    )
    if not more:
        return ""
    named = [
        f"{part.by} {part.name} ({part.rate.value:.1%} of {part.rate.n}, elsewhere "
        f"{part.elsewhere:.1%})"
        for part in more[:NAMED]
    ]
    others = f" and {len(more) - NAMED} more" if len(more) > NAMED else ""
    return f"it errs significantly more on {'; '.join(named)}{others} ({_how(parts)})"


def _divided(answers: Sequence[Compared]) -> Divided:
    bounds = _bounds([answer.length for answer in answers])
    return {
        "length": lambda answer: _length(answer.length, bounds),
        "language": lambda answer: answer.language,
        "category": lambda answer: answer.category,
        "candidate": lambda answer: answer.candidate,
    }


def _bounds(lengths: Sequence[int]) -> list[int]:
    """The greatest length of each part but the last, in order."""
    ordered = sorted(lengths)
    bounds = []
    for part in range(1, LENGTHS):
        bounds.append(ordered[math.ceil(part * len(ordered) / LENGTHS) - 1])
    # Many answers of one length leave nothing above it.
    return sorted({bound for bound in bounds if bound < ordered[-1]})


def _length(length: int, bounds: Sequence[int]) -> str:
    lowest = 0
    for bound in bounds:
        if length <= bound:
            return f"{lowest} to {bound}"
        lowest = bound + 1
    return f"{lowest} or more"


def _order(name: str) -> tuple[int, str]:
    """Lengths by number, all else by name."""
    first = name.split(" ")[0]
    return (int(first), name) if first.isdecimal() else (0, name)


def _errors(
    by: str, name: str, answers: Sequence[Compared], is_in: Sequence[bool]
) -> PartErrors:
    own = [answer for answer, inside in zip(answers, is_in, strict=True) if inside]
    rest = [answer for answer, inside in zip(answers, is_in, strict=True) if not inside]
    rate = bounded_mean(
        [float(answer.is_wrong) for answer in own],
        0.0,
        1.0,
        units=units([answer.prompt for answer in own]),
    )
    elsewhere = sum(answer.is_wrong for answer in rest) / len(rest)
    p = None
    if min(len(own), len(rest)) >= LEAST:
        # The first is exact for few answers, the second knows what else differs between the two.
        p = max(_fisher(own, rest), _given_labels(answers, is_in))
    return PartErrors(by, name, rate, elsewhere, p)


def _fisher(own: Sequence[Compared], rest: Sequence[Compared]) -> float:
    """Fisher's exact test: that the first answers have no more errors than the others."""
    # Takes long to import, which collection need not wait for.
    from scipy.stats import fisher_exact

    table = []
    for side in (own, rest):
        wrong = sum(answer.is_wrong for answer in side)
        table.append([wrong, len(side) - wrong])
    return float(fisher_exact(np.array(table), alternative="greater").pvalue)


def _given_labels(answers: Sequence[Compared], is_in: Sequence[bool]) -> float:
    """A score test, stratified by people's labels, with prompts as independent units.

    A judge may misread refusals more often than compliances, and a part may have more of them; so
    errors are compared among answers with the same label.
    """
    wrong = np.array([answer.is_wrong for answer in answers], dtype=float)
    inside = np.array(is_in, dtype=float)
    labels = np.array([answer.human for answer in answers])
    scores = np.zeros(len(answers))
    for label in set(labels):
        own = labels == label
        scores[own] = (wrong[own] - wrong[own].mean()) * (
            inside[own] - inside[own].mean()
        )
    prompts = {answer.prompt: None for answer in answers}
    places = {prompt: place for place, prompt in enumerate(prompts)}
    unit = [places[answer.prompt] for answer in answers]
    spread = math.sqrt(float((np.bincount(unit, scores) ** 2).sum()))
    if spread == 0:
        return 1.0
    return 1 - NormalDist().cdf(float(scores.sum()) / spread)


def _holm(values: Sequence[float | None]) -> list[bool]:
    """Which of the tests are significant at ``LEVEL`` together; None is no test."""
    significant = [False] * len(values)
    tested = [(p, place) for place, p in enumerate(values) if p is not None]
    for done, (p, place) in enumerate(sorted(tested)):
        if p > LEVEL / (len(tested) - done):
            break
        significant[place] = True
    return significant
