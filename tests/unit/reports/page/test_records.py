"""Records as JSON inside a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.records import Record
from refusal_checks.reports.page.page import Payload
from refusal_checks.reports.page.render import breaks, embed, visible
from tests.report_runs import refusals

Many = Callable[..., list[Record]]

ANY = st.text(st.characters(exclude_categories=[]), max_size=40)
VALUES = st.recursive(
    ANY
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY, inner, max_size=4),
)


@given(value=VALUES)
def test_embedded_values_come_back(value: object) -> None:
    text = embed(value)
    assert json.loads(text.encode()) == value
    assert not set(text) & set("<>&\u2028\u2029")


@pytest.mark.parametrize("prompts", [0, 1, 501])
def test_any_number_of_prompts_is_one_value(prompts: int) -> None:
    found = json.loads(Payload("unsafe", "safety", [], refusals("unsafe", prompts, 1)).text)
    assert [prompt[0] for prompt in found["prompts"]] == [
        f"unsafe-{number:05}" for number in range(prompts)
    ]


def test_a_group_that_comes_later_has_its_place(records: Many) -> None:
    first = records("R", category="one")
    second = [
        replace(r, prompt=replace(r.prompt, id="x", groups={"language": "zh"})) for r in first
    ]
    found = json.loads(Payload("b", "", [], [*first, *second]).text)
    assert found["groups"] == ["category", "language"]
    assert [prompt[1] for prompt in found["prompts"]] == [["one"], [None, "zh"]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\nlines\r\nand\ttabs", "plain\nlines\nand\ttabs"),
        ("\x1b[31m\x00\r", "␛[31m␀␍"),
        ("\x7f\x85\u202e\u2066\u200f\ud800\ufeff\u2028", "␡" + 7 * "\ufffd"),
        ("\u3164\ufe01x\ufe0f\U00016fe4 ⚠\ufe0f", "\ufffd\ufffdx\ufffd\ufffd ⚠\ufe0f"),
        ("ক্\u200cষ 👩\u200d🔬", "ক্\u200cষ 👩\u200d🔬"),
    ],
)
def test_what_is_invisible_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("org/judge", "org/|judge"),
        ("org/a_b--c, <b>", "org/|a_|b--|c,| |&lt;b&gt;"),
        ("x" * 30, f"{'x' * 24}|{'x' * 6}"),
        ("", ""),
    ],
)
def test_a_name_breaks_after_its_parts_and_stays_text(name: str, shown: str) -> None:
    assert breaks(name) == shown.replace("|", "<wbr>")
