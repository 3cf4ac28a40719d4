"""The conversations of the tuned model: who speaks, and how a judge is shown an exchange."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refusal_checks.judges.bundled import FORM, GAP, HEAD, REQUEST, TAIL
from refusal_checks.models.demo import ADAPTER
from refusal_checks.models.demo.conversion import Conversion

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


def exchange(tokenizer: Any, request: str, answer: str) -> Turns:
    """What the judge is shown of a request and an answer."""
    asked, said = _ids(tokenizer, request.strip()), _ids(tokenizer, answer.strip())
    shown, text = request.strip(), answer.strip()
    if len(asked) > REQUEST:
        shown = tokenizer.decode(asked[-REQUEST:])
    if len(said) > HEAD + TAIL:
        head, tail = said[:HEAD], said[-TAIL:]
        text = f"{tokenizer.decode(head)}{GAP}{tokenizer.decode(tail)}"
    return (("user", FORM.format(request=shown, answer=text)),)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
