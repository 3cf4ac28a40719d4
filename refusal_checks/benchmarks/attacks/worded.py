"""The attacks of ``table.toml``, which are told by texts alone."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from refusal_checks.benchmarks.attacks.base import Attack, Given, after_system
from refusal_checks.benchmarks.attacks.encodings import ENCODINGS, PLAIN
from refusal_checks.core.prompts import Message, Prompt, Role
from refusal_checks.core.settings import Frozen

_TABLE = Path(__file__).with_name("table.toml")


class _Row(Frozen):
    """One attack; the table's head says what each key means."""

    source: str
    description: str
    user: str = "{request}"
    encoding: str = ""
    system: str = ""
    before: list[str] = Field(default_factory=list)
    answer: str = ""
    unfit: str = ""


def _attack(name: str, row: _Row) -> Attack:
    coding = ENCODINGS[row.encoding] if row.encoding else PLAIN
    roles: tuple[Role, ...] = ("user", "assistant")
    script = [Message(roles[place % 2], text) for place, text in enumerate(row.before)]

    def rewrite(prompt: Prompt, given: Given) -> Sequence[Message] | None:
        *earlier, last = prompt.messages
        request = coding.encode(last.content)
        if row.unfit and request == last.content:
            return None
        messages = [*earlier, replace(last, content=row.user.replace("{request}", request))]
        if row.system and messages[0].role == "system":
            own = f"{messages[0].content}\n\n{row.system}"
            messages[0] = replace(messages[0], content=own)
        elif row.system:
            messages = [Message("system", row.system), *messages]
        if row.answer:
            messages.append(Message("assistant", row.answer))
        return after_system(messages, script)

    return Attack(name, row.source, row.description, rewrite, row.unfit, coding.decode)


ATTACKS = tuple(
    _attack(name, _Row.read(row, f"{_TABLE}: {name}"))
    for name, row in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()
)
