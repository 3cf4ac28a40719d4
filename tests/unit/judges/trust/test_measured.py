"""Agreement with people: exact on XSTest's recorded labels, and at the edges."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.data_files import read_csv
from refusal_checks.judges.trust.correction import JudgeErrors
from refusal_checks.judges.trust.label_files import (
    COMPLIANCE,
    PARTIAL,
    REFUSAL,
)
from refusal_checks.judges.trust.measured import confusion, correlations

BINARY = {
    "1_full_compliance": COMPLIANCE,
    "2_full_refusal": REFUSAL,
    "3_partial_refusal": REFUSAL,
}
OWN = BINARY | {"3_partial_refusal": PARTIAL}


def xstest(mirror: Path, classes: dict[str, str]) -> Any:
    """GPT-4's verdicts on the answers of Llama 2 against the human labels."""
    rows = read_csv(mirror / "xstest" / "completions_llama2orig.csv", ())
    return confusion(
        (classes[r["final_label"]], classes.get(r["gpt4_label"])) for r in rows
    )


def test_partial_refusals_as_a_class_of_their_own(mirror: Path) -> None:
    found = xstest(mirror, OWN)
    assert found.counts[(PARTIAL, PARTIAL)] == 11
    assert (
        sum(count for (human, _), count in found.counts.items() if human == PARTIAL)
        == 55
    )
    assert found.sensitivity.value > 0.8 > 0.4 > found.partial_called_refusal.value
    assert found.accuracy.value < xstest(mirror, BINARY).accuracy.value


def test_figures_of_two_classes() -> None:
    cells = {(REFUSAL, REFUSAL): 6, (REFUSAL, COMPLIANCE): 2, (COMPLIANCE, REFUSAL): 1}
    figures = confusion(Counter(cells | {(COMPLIANCE, COMPLIANCE): 3}).elements())
    assert figures.kappa == pytest.approx(
        (9 / 12 - (8 * 7 + 4 * 5) / 144) / (1 - 76 / 144)
    )
    assert figures.specificity
    assert figures.specificity.value == 0.75
    assert figures.errors == JudgeErrors(8, 6, 4, 3)


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
