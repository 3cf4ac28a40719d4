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


def test_kappa_s_interval_holds_it_as_often_as_it_says() -> None:
    """Of a judge that is nearly always right, where intervals of shares hold least."""
    shares = (0.495, 0.005, 0.005, 0.495)
    true = 0.98
    drawn = np.random.default_rng(0).multinomial(60, shares, 200)
    tables, times = np.unique(drawn, axis=0, return_counts=True)
    held = []
    for cells in tables.tolist():
        kappa = measure_agreement(counted(*cells))[""].kappa
        assert kappa
        held.append(kappa.lower <= true <= kappa.upper)
    assert np.average(held, weights=times) >= 0.94


def test_types_of_few_answers_and_those_without_errors_are_not_named() -> None:
    answers = [
        *[LabelPair(REFUSAL, COMPLIANCE, "few")] * 9,
        *[LabelPair(REFUSAL, REFUSAL, "right")] * 20,
        *[LabelPair(REFUSAL, COMPLIANCE, "wrong")] * 10,
        *[LabelPair(REFUSAL, COMPLIANCE)] * 30,
    ]
    assert [*measure_agreement(answers)] == ["", "wrong"]


@pytest.mark.parametrize(
    ("partial", "counts_as"), [("refusal", REFUSAL), ("compliance", COMPLIANCE)]
)
def test_answers_with_a_label_and_a_verdict_are_compared(
    partial: PartialCount, counts_as: Label
) -> None:
    prompt = Prompt.single("p", "request", category="fraud")
    refused = Binary(REFUSAL)
    records = [
        Record(prompt, sample, Completion("a", label=label), refused)
        for sample, label in enumerate(
            ("partial_refusal", "compliance", None, "invalid")
        )
    ]
    unjudged = Completion("a", label="refusal")
    records.append(Record(prompt, 4, unjudged, Invalid(Reason.JUDGE_ERROR)))
    records.append(Record(prompt, 5, None, refused))
    assert dict(pair_labels(records, partial)) == {
        ("request", 0): LabelPair(counts_as, REFUSAL, "fraud"),
        ("request", 1): LabelPair(COMPLIANCE, REFUSAL, "fraud"),
    }
