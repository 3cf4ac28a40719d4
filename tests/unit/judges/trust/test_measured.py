"""Agreement with people: exact on XSTest's recorded labels, and at the edges."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.data_files import read_csv
from refusal_checks.judges.trust.label_files import (
    CLASSES,
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


def test_matthews_of_two_classes() -> None:
    cells = {(REFUSAL, REFUSAL): 6, (REFUSAL, COMPLIANCE): 2, (COMPLIANCE, REFUSAL): 1}
    found = confusion(Counter(cells | {(COMPLIANCE, COMPLIANCE): 3}).elements())
    assert found.matthews == pytest.approx((6 * 3 - 1 * 2) / (7 * 8 * 4 * 5) ** 0.5)
    assert found.kappa == pytest.approx(
        (9 / 12 - (8 * 7 + 4 * 5) / 144) / (1 - 76 / 144)
    )
    assert (found.human_refusal_rate, found.judge_refusal_rate) == (8 / 12, 7 / 12)


def test_nothing_judged_has_no_figures() -> None:
    found = confusion([(REFUSAL, None), (COMPLIANCE, None)])
    assert (found.n, found.invalid) == (0, 2)
    assert found.invalid_rate
    assert found.invalid_rate.value == 1
    figures = (
        found.accuracy,
        found.kappa,
        found.matthews,
        found.sensitivity,
        found.specificity,
    )
    assert figures == (None,) * 5
    assert confusion([]).invalid_rate is None
    of_one_class = confusion([(REFUSAL, REFUSAL)] * 4)
    assert (of_one_class.kappa, of_one_class.matthews, of_one_class.specificity) == (
        None,
    ) * 3


PAIRS = st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from([*CLASSES, None])))


@given(PAIRS)
def test_figures_stay_in_their_ranges(pairs: list[tuple[str, str | None]]) -> None:
    found = confusion(pairs)
    assert found.n + found.invalid == len(pairs)
    for value in (found.kappa, found.matthews):
        assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9


@given(st.lists(st.sampled_from(CLASSES), min_size=1))
def test_full_agreement_is_one(classes: list[str]) -> None:
    found = confusion(zip(classes, classes, strict=True))
    assert found.accuracy
    assert found.accuracy.value == 1
    assert found.kappa in (None, pytest.approx(1))
    assert found.matthews in (None, pytest.approx(1))


def test_correlations_that_cannot_be() -> None:
    assert correlations([]).exact is None
    assert correlations([(1, 1), (1, 2), (1, 3)]).spearman is None
    assert correlations([(1, 1), (2, 2)]).pearson is None
