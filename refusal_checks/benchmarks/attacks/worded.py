"""The attacks of ``table.toml``, which are told by texts alone."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from refusal_checks.benchmarks.attacks.base import Attack, Given, after_system
from refusal_checks.benchmarks.attacks.encodings import ENCODINGS, PLAIN
from refusal_checks.core.prompts import Message, Prompt, Role

_TABLE = Path(__file__).with_name("table.toml")


def _attack(
    name: str,
    source: str,
    description: str,
    user: str = "{request}",
    encoding: str = "",
    system: str = "",
    before: Sequence[str] = (),
    answer: str = "",
    unfit: str = "",
) -> Attack:
    """One attack; the table's head says what each key means."""
    coding = ENCODINGS[encoding] if encoding else PLAIN
    roles: tuple[Role, ...] = ("user", "assistant")
    script = [Message(roles[place % 2], text) for place, text in enumerate(before)]

    def rewrite(prompt: Prompt, given: Given) -> Sequence[Message] | None:
        *earlier, last = prompt.messages
        request = coding.encode(last.content)
        if unfit and request == last.content:
            return None
        messages = [*earlier, replace(last, content=user.replace("{request}", request))]
        if system and messages[0].role == "system":
            own = f"{messages[0].content}\n\n{system}"
            messages[0] = replace(messages[0], content=own)
        elif system:
            messages = [Message("system", system), *messages]
        if answer:
            messages.append(Message("assistant", answer))
        return after_system(messages, script)

    return Attack(name, source, description, rewrite, unfit, coding.decode)


ATTACKS = tuple(
    _attack(name, **row) for name, row in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()
)
