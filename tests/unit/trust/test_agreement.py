"""Agreement with people: exact on XSTest's recorded labels, and at the edges."""

import csv
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from refusal_checks.core.judgements import Binary, Invalid, Label, PartialCount, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.judges.rules import LABELS
from refusal_checks.trust.agreement import (
    JudgeAgreement,
    LabelPair,
    measure_agreement,
    pair_labels,
)

REFUSAL, COMPLIANCE = Label.REFUSAL, Label.COMPLIANCE


def gpt4_and_people(mirror: Path, model: str) -> list[LabelPair]:
    """XSTest's labels by people and GPT-4 of one model's answers."""
    path = mirror / "xstest" / f"completions_{model}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [
            LabelPair(
                LABELS[row["final_label"]].label,
                LABELS[row["gpt4_label"]].label,
                row["type"],
            )
            for row in csv.DictReader(file)
            if row["gpt4_label"] in LABELS
        ]


def rounded(found: JudgeAgreement) -> list[float]:
    assert found.kappa
    assert found.sensitivity
    assert found.specificity
    figures = (found.kappa, found.sensitivity, found.specificity)
    return [found.n, *(round(figure.value, 3) for figure in figures)]


def test_gpt4_s_published_labels_of_xstest(mirror: Path) -> None:
    by_model = {
        model: gpt4_and_people(mirror, model)
        for model in ("gpt4", "llama2orig", "mistralinstruct")
    }
    overall = {
        model: rounded(measure_agreement(answers)[""])
        for model, answers in by_model.items()
    }
    assert overall == {
        "gpt4": [450, 0.875, 0.873, 1.000],
        "llama2orig": [450, 0.548, 0.739, 0.980],
        "mistralinstruct": [439, 0.116, 0.211, 0.893],
    }
    found = measure_agreement([*chain.from_iterable(by_model.values())])
    assert {name: rounded(figures) for name, figures in found.items()} == {
        "": [1339, 0.668, 0.722, 0.941],
        "contrast_discr": [75, 0.032, 0.292, 1.000],
        "nons_group_real_discr": [75, 0.000, 0.000, 1.000],
        "contrast_historical_events": [74, 0.256, 0.719, 0.700],
    }
    assert f"{found[''].kappa:.3f}" == "0.668 [0.628, 0.707]"
    assert f"{found[''].specificity:.1%}" == "94.1% [92.1%, 95.6%]"


def counted(*cells: int) -> list[LabelPair]:
    """Answers by people's label and the judge's: both refusal, people's alone, judge's, neither."""
    kinds = [(a, b) for a in (REFUSAL, COMPLIANCE) for b in (REFUSAL, COMPLIANCE)]
    return [
        LabelPair(*kind) for kind, n in zip(kinds, cells, strict=True) for _ in range(n)
    ]


def test_kappa_is_cohen_s() -> None:
    found = measure_agreement(counted(6, 2, 1, 3))[""]
    kappa = (9 / 12 - (8 * 7 + 4 * 5) / 144) / (1 - 76 / 144)
    assert rounded(found) == [12, round(kappa, 3), 0.75, 0.75]


def test_what_people_never_said_has_no_figures() -> None:
    found = measure_agreement(counted(3, 1, 0, 0))[""]
    assert (found.n, found.kappa, found.specificity) == (4, None, None)
    assert measure_agreement([]) == {}


def test_a_judge_without_an_error_is_not_certain_of_all_answers() -> None:
    kappa = measure_agreement(counted(10, 0, 0, 10))[""].kappa
    assert kappa
    assert kappa.value == kappa.upper == 1
    assert 0.6 < kappa.lower < 0.8


@pytest.mark.parametrize(
    "shares", [(0.45, 0.05, 0.05, 0.45), (0.495, 0.005, 0.005, 0.495)]
)
def test_kappa_s_interval_holds_it_as_often_as_it_says(
    shares: tuple[float, ...],
) -> None:
    true = 2 * (shares[0] + shares[3]) - 1
    rng = np.random.default_rng(0)
    held = []
    for cells in rng.multinomial(60, shares, 200):
        kappa = measure_agreement(counted(*cells.tolist()))[""].kappa
        assert kappa
        held.append(kappa.lower <= true <= kappa.upper)
    assert np.mean(held) >= 0.94


def test_types_of_few_answers_and_those_without_errors_are_not_named() -> None:
    answers = [
        *[LabelPair(REFUSAL, COMPLIANCE, "few")] * 9,
        *[LabelPair(REFUSAL, REFUSAL, "right")] * 20,
        *[LabelPair(REFUSAL, COMPLIANCE, "wrong")] * 10,
        *[LabelPair(REFUSAL, COMPLIANCE)] * 30,
    ]
    assert [*measure_agreement(answers)] == ["", "wrong"]


def test_answers_with_a_label_and_a_verdict_are_compared() -> None:
    prompt = Prompt.single("p", "request", category="fraud")
    refused = Binary(REFUSAL)
    records = [
        Record(prompt, 0, Completion("a", label="partial_refusal"), refused),
        Record(prompt, 1, Completion("a", label="compliance"), refused),
        Record(prompt, 2, Completion("a"), refused),
        Record(prompt, 3, Completion("a", label="invalid"), refused),
        Record(
            prompt, 4, Completion("a", label="refusal"), Invalid(Reason.JUDGE_ERROR)
        ),
        Record(prompt, 5, None, refused),
    ]
    cases: tuple[tuple[PartialCount, Label], ...] = (
        ("refusal", REFUSAL),
        ("compliance", COMPLIANCE),
    )
    for partial, counts_as in cases:
        assert dict(pair_labels(records, partial)) == {
            (prompt.transcript, 0): LabelPair(counts_as, REFUSAL, "fraud"),
            (prompt.transcript, 1): LabelPair(COMPLIANCE, REFUSAL, "fraud"),
        }
