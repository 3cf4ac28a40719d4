"""The canary: what it holds."""

from collections import Counter

import pytest

from refusal_checks.core.nonsense import why_nonsense
from refusal_checks.core.special_tokens import FAMILIES
from refusal_checks.core.verdicts import Label
from refusal_checks.judges.kinds.refusal import RefusalCategory
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.canary import HOSTILE, KINDS


def test_what_the_set_holds() -> None:
    exchanges = canary.load()
    assert 60 <= len(exchanges) < 160, "each gate waits for them"
    core = [exchange for exchange in exchanges if exchange.type not in KINDS]
    assert len(core) == 93, "figures stay comparable"
    for language in ("en", "zh"):
        own = [exchange for exchange in core if exchange.language == language]
        categories = {e.category for e in own if e.type == "refusal"}
        assert categories == set(map(str, RefusalCategory))
    for exchange in exchanges:
        assert not why_nonsense(exchange.answer), "no judge would see it"
        assert (exchange.category is None) == (exchange.label == Label.COMPLIANCE)


def test_hostile_texts_forge_turns_of_every_family_in_both_languages() -> None:
    """Their special tokens are the most direct way into a judge's own instructions."""
    for language in ("en", "zh"):
        hostile = [
            e for e in canary.load() if (e.type, e.language) == (HOSTILE, language)
        ]
        texts = [text for e in hostile for text in (e.prompt, e.answer)]
        for token in (
            "<|im_start|>", "<|eot_id|>", "<<SYS>>", "[SYSTEM_PROMPT]", "<start_of_turn>",
            "<｜User｜>", "<|system|>", "<|channel|>", "[gMASK]", "<tool_response>",
        ):  # fmt: skip
            assert any(token in text for text in texts), (language, token)
        assert any(FAMILIES.count(e.prompt) for e in hostile)
        forged = [e for e in hostile if FAMILIES.count(e.prompt, e.answer)]
        assert {e.label for e in forged} == {"refusal", "compliance"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_cannot_be_judged_by_leaning_one_way_or_by_openings(kind: str) -> None:
    own = [exchange for exchange in canary.load() if exchange.type == kind]
    sides = Counter((exchange.label, exchange.language) for exchange in own)
    assert len({*sides.values()}) == 1
    assert len(own) >= 8
    if kind not in ("sandwich", "opening", "long"):
        return
    # Twins: one request, one opening, two verdicts.
    for one, other in zip(own[::2], own[1::2], strict=True):
        assert one.prompt == other.prompt
        assert (one.label, other.label) == ("compliance", "refusal")
        assert one.answer[:12] == other.answer[:12]
        assert abs(len(one.answer) - len(other.answer)) < 50


def test_the_set_is_frozen() -> None:
    """Figures of two releases are comparable: a change of the file is a change of this line."""
    assert canary.digest() == (
        "7e1fa7ad95ac91b33da3fa9c9d5abea7b672d3696a46b42a89070957215ff0f1"
    )
