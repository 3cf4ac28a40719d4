"""The values that a run is made of."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from refusal_checks.core.prompts import Message, Prompt


def test_a_single_prompt_is_one_user_turn_with_its_groups() -> None:
    prompt = Prompt.single("p1", "hello", category="greeting", language="en")
    assert prompt.messages == (Message("user", "hello"),)
    assert prompt.groups == {"category": "greeting", "language": "en"}
    assert prompt.reference is None


def test_a_single_turn_is_shown_without_its_role() -> None:
    prompt = Prompt.single("p1", "User: not a role\n")
    assert prompt.request == prompt.transcript == "User: not a role\n"


def test_a_conversation_is_shown_with_roles_and_its_last_turn_is_the_request() -> None:
    turns = (Message("system", "be brief"), Message("user", "a"), Message("user", "b\nc"))
    prompt = Prompt("p1", turns)
    assert prompt.request == "b\nc"
    assert prompt.transcript == "System: be brief\n\nUser: a\n\nUser: b\nc"


def test_values_do_not_change() -> None:
    prompt = Prompt.single("p1", "hello")
    with pytest.raises(FrozenInstanceError):
        prompt.id = "p2"  # type: ignore[misc]
