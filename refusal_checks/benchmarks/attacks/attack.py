"""The form of an attack: a pure function from a prompt to the messages that are sent in its place.

Attacks here are published and generic: none is optimised against a model, and the wording is this
project's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from refusal_checks.core.prompts import Message, Prompt

SEED = 0
"""Selects among equally good rewordings; do not change it, or runs become incomparable."""


@dataclass(frozen=True)
class Given:
    """What a rewriting may depend on besides its prompt.

    Attributes:
        prompts: all of the benchmark, for attacks that need a prompt's translations.
    """

    prompts: Sequence[Prompt] = field(default=(), repr=False)
    seed: int = SEED

    def random(self, attack: str, prompt: Prompt) -> Random:
        """Random numbers that depend on the seed, the attack and the prompt's id only."""
        return Random(f"{self.seed} {attack} {prompt.id}")

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[Prompt]]:
        """The prompts that are made from one source, by their cluster."""
        clusters: dict[str, list[Prompt]] = {}
        for prompt in self.prompts:
            if prompt.cluster:
                clusters.setdefault(prompt.cluster, []).append(prompt)
        return clusters


Rewrite = Callable[[Prompt, Given], Sequence[Message] | None]
"""The messages to send in place of a prompt's; None if the attack cannot rewrite this one. The
same arguments give the same messages, in any process."""


@dataclass(frozen=True)
class Attack:
    """One way of asking for what a plain prompt asks for.

    Attributes:
        source: the publication that it comes from.
        description: what it does to a prompt, in half a sentence.
        rewrite: a prompt whose messages stay as they are counts as not rewritten.
        unfit: what the prompts have in common that it cannot rewrite; empty if it can all.
        decode: an answer in plain text, for attacks that ask for an encoded one; it takes any
            text, and gives back what is not encoded as it is.
        sha256: digest of the file that its texts are from; empty for one that has no file.
    """

    name: str
    source: str
    description: str
    rewrite: Rewrite
    unfit: str = ""
    decode: Callable[[str], str] = str
    sha256: str = ""


@dataclass(frozen=True)
class Family:
    """Attacks that differ in a parameter, which follows the name: ``many_shot_32``.

    Attributes:
        parameter: what it is and its range, in words.
        build: raises ValueError for what is no parameter.
        examples: names of some of its attacks.
    """

    name: str
    source: str
    description: str
    parameter: str
    build: Callable[[str], Attack]
    examples: tuple[str, ...]


def worded(wording: Callable[[str], str | None]) -> Rewrite:
    """The rewriting that changes the text of the last turn only; None where there is none."""

    def rewrite(prompt: Prompt, given: Given) -> Sequence[Message] | None:
        text = wording(prompt.request)
        if text is None:
            return None
        return *prompt.messages[:-1], replace(prompt.messages[-1], content=text)

    return rewrite


def after_system(
    messages: Sequence[Message], turns: Sequence[Message]
) -> tuple[Message, ...]:
    """The messages with further turns before the first that is not the system's."""
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    return *messages[:count], *turns, *messages[count:]
