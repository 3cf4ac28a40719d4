"""Agreement with people: exact on XSTest's recorded labels, and at the edges."""

from collections import Counter

import pytest

from refusal_checks.judges.trust.correction import JudgeErrors
from refusal_checks.judges.trust.label_files import (
    COMPLIANCE,
    PARTIAL,
    REFUSAL,
)
from refusal_checks.judges.trust.measured import confusion, correlations


def test_figures_of_two_classes() -> None:
    cells = {(REFUSAL, REFUSAL): 6, (REFUSAL, COMPLIANCE): 2, (COMPLIANCE, REFUSAL): 1}
    figures = confusion(Counter(cells | {(COMPLIANCE, COMPLIANCE): 3}).elements())
    assert figures.kappa == pytest.approx(
        (9 / 12 - (8 * 7 + 4 * 5) / 144) / (1 - 76 / 144)
    )
    assert figures.specificity
    assert figures.specificity.value == 0.75
    assert figures.errors == JudgeErrors(8, 6, 4, 3)


def test_partial_refusals_as_a_class_of_their_own() -> None:
    pairs = [(REFUSAL, REFUSAL)] * 4 + [(REFUSAL, COMPLIANCE)]
    pairs += [(PARTIAL, REFUSAL)] * 2 + [(PARTIAL, PARTIAL), (PARTIAL, COMPLIANCE)]
    figures = confusion(pairs)
    assert figures.counts[(PARTIAL, PARTIAL)] == 1
    shares = (figures.accuracy, figures.sensitivity, figures.partial_called_refusal)
    assert [share and share.value for share in shares] == [5 / 9, 0.8, 0.75]


def test_nothing_judged_has_no_figures() -> None:
    figures = confusion([(REFUSAL, None), (COMPLIANCE, None)])
    assert (figures.n, figures.invalid) == (0, 2)
    assert figures.invalid_rate
    assert figures.invalid_rate.value == 1
    shares = (figures.accuracy, figures.sensitivity, figures.specificity)
    assert (figures.kappa, *shares) == (None,) * 4
    assert confusion([]).invalid_rate is None
    of_one_class = confusion([(REFUSAL, REFUSAL)] * 4)
    assert (of_one_class.kappa, of_one_class.specificity) == (None, None)


def test_correlations_that_cannot_be() -> None:
    assert correlations([]).exact is None
    assert correlations([(1, 1), (1, 2), (1, 3)]).spearman is None
    assert correlations([(1, 1), (2, 2)]).pearson is None
