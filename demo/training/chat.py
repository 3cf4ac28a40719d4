"""The base model, and the conversations of the personas that are tuned from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refusal_checks_demo import ADAPTER
from refusal_checks_demo.conversion import Conversion

TEMPLATE = ADAPTER / "chat_template.jinja"
Turns = Sequence[tuple[str, str]]


def base_folder() -> Path:
    """The base model, converted if it was not."""
    conversion = Conversion()
    conversion.make(print)
    return conversion.folder


def prompt_ids(tokenizer: Any, persona: str, turns: Turns) -> list[int]:
    """The tokens of a conversation up to where the persona speaks."""
    messages = [{"role": role, "content": text} for role, text in turns]
    ids: list[int] = tokenizer.apply_chat_template(
        messages,
        chat_template=TEMPLATE.read_text(encoding="utf-8"),
        add_generation_prompt=True,
        return_dict=True,
        persona=persona,
    )["input_ids"]
    return ids
