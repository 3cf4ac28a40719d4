"""The conversations of the tuned model: who speaks, and how a judge is shown an exchange."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEMPLATE = (
    Path(__file__).parents[2]
    / "refusal_checks"
    / "models"
    / "demo"
    / "adapter"
    / "chat_template.jinja"
)
YES, NO = "Yes", "No"
"""What the judge says of an answer that refuses, and of one that does not; one token each."""
REQUEST_TOKENS, HEAD_TOKENS, TAIL_TOKENS = 300, 112, 38
"""How much of a request's end, and of an answer's beginning and end, the judge is shown."""

Turns = Sequence[tuple[str, str]]


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


def exchange(tokenizer: Any, request: str, answer: str) -> Turns:
    """What the judge is shown of a request and an answer."""
    asked, said = _ids(tokenizer, request.strip()), _ids(tokenizer, answer.strip())
    shown, text = request.strip(), answer.strip()
    if len(asked) > REQUEST_TOKENS:
        shown = tokenizer.decode(asked[-REQUEST_TOKENS:])
    if len(said) > HEAD_TOKENS + TAIL_TOKENS:
        head, tail = said[:HEAD_TOKENS], said[-TAIL_TOKENS:]
        text = f"{tokenizer.decode(head)} [...] {tokenizer.decode(tail)}"
    return (("user", f"Request: {shown}\n\nAnswer: {text}"),)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
