"""What judges write is read strictly: the one verdict that is certain, or nothing valid."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.judgements import Binary, Invalid, Label
from refusal_checks.judges.kinds import degree, refusal
from refusal_checks.judges.kinds.refusal import (
    CONSISTENT,
    SCHEMA,
    RefusalCategory,
    parse_judgement,
)
from tests.unit.judges import prompts

FILE = Path(__file__).parents[2] / "data" / "judge_outputs.jsonl"
"""Outputs by format, and the label or degree that they give, or the reason why they give none."""

OUTPUTS = [
    json.loads(line) for line in FILE.read_text(encoding="utf-8").split("\n") if line
]

PARSERS: dict[str, Callable[[str], Any]] = {
    "refusal": refusal.parse_judgement,
    "degree": degree.parse_judgement,
    **prompts.PARSERS,
}
CATEGORIES = [str(category) for category in RefusalCategory]


def said(found: Any) -> str:
    """The label or degree of a verdict, or the reason why there is none."""
    return str(found.in_words).removeprefix("degree ")


@pytest.mark.parametrize(
    "row", OUTPUTS, ids=lambda row: f"{row['format']}-{row['case']}"
)
def test_an_output_is_read_strictly(row: dict[str, str]) -> None:
    assert said(PARSERS[row["format"]](row["output"])) == row["reading"]


PIECES = [
    "{", "}", "[", "]", ":", ",", '"', "\\", " ", "not", "1", "null", "none", "refusal",
    "not refusal", '"verdict"', '"category"', '"refusal"', '"compliance"', '"none"', '"deflection"',
    "<answer>", "</answer>", "</think>", "\n",
]  # fmt: skip
TAGGED = re.compile(r"<answer>\s*(not )?refusal\s*</answer>")


@given(
    st.sampled_from(sorted(PARSERS)),
    st.text() | st.lists(st.sampled_from(PIECES)).map("".join),
)
def test_any_other_text_is_invalid(name: str, text: str) -> None:
    if text.strip().lower() not in ("yes", "no") and not TAGGED.search(text):
        assert isinstance(PARSERS[name](text), Invalid)


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_unreadable_is_shown_bounded_and_storable(name: str) -> None:
    for text in ("\ud800" + "refusal " * 1000, '{"a":' * 3000, "x" * 300_000):
        found = PARSERS[name](text)
        assert isinstance(found, Invalid)
        assert 0 < len(found.detail) <= 200
        assert found.detail.encode("utf-8")


def verdict(
    label: str = "refusal", category: str = "deflection", why: str = "why"
) -> str:
    return json.dumps({"rationale": why, "category": category, "verdict": label})


def test_a_contradiction_is_named_and_of_a_text_what_can_be_stored_is_kept() -> None:
    contrary = parse_judgement(verdict("compliance", "deflection"))
    assert isinstance(contrary, Invalid)
    assert "category deflection contradicts" in contrary.detail
    assert parse_judgement(verdict(why="a\ud800b")).rationale.encode("utf-8")


@given(
    rationale=st.text(),
    category=st.sampled_from([*CATEGORIES, "none"]),
    label=st.sampled_from(list(Label)),
    before=st.text(st.characters(exclude_characters='"')),
    after=st.text(),
    layout=st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 2}]),
)
def test_a_verdict_within_noise_is_read_as_it_was_written(
    rationale: str,
    category: str,
    label: Label,
    before: str,
    after: str,
    layout: dict[str, Any],
) -> None:
    fields = {"rationale": rationale, "category": category, "verdict": str(label)}
    written = json.dumps(fields, **layout)
    found = parse_judgement(before + written + after)
    if label is Label.COMPLIANCE and category != "none":
        assert isinstance(found, Invalid)
    else:
        assert found == Binary(
            label, None if category == "none" else category, rationale
        )


def test_what_the_schema_allows_is_what_the_parser_reads() -> None:
    assert len(CATEGORIES) == len(set(CATEGORIES)) == 12
    assert SCHEMA["properties"]["category"]["enum"] == [*CATEGORIES, "none"]
    allowed = [form["properties"] for form in CONSISTENT["anyOf"]]
    assert [form["verdict"]["enum"] for form in allowed] == [
        ["refusal"],
        ["compliance"],
    ]
    for form in allowed:
        for category in form["category"]["enum"]:
            (label,) = form["verdict"]["enum"]
            assert isinstance(parse_judgement(verdict(label, category)), Binary)
    # A reason before the verdict.
    assert list(SCHEMA["properties"]) == ["rationale", "category", "verdict"]


LINE = "Harmful request: yes\nResponse refusal: yes\nHarmful response: no"


def test_the_rationale_is_what_the_judge_said() -> None:
    lines = "Harmful request: yes; Response refusal: yes; Harmful response: no"
    assert PARSERS["wildguard"](LINE).rationale == lines
    assert PARSERS["harmbench"]("no").rationale == "says no"
    tagged = "x" * 900 + " It declines.\n<answer>\nrefusal\n</answer>"
    analysis = PARSERS["refusal_evaluation"](tagged).rationale
    assert analysis.endswith("x It declines.")
    assert len(analysis) == 500
