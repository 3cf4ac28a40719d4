"""The form of an attack: a pure function from a prompt to the messages to send instead.

The attacks here are published and generic: none is optimised against a model, and the wording is
this project's own.
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
    """What a rewrite may depend on besides its prompt.

    Attributes:
        prompts: all prompts of the benchmark, for attacks that need a prompt's translations.
    """

    prompts: Sequence[Prompt] = field(default=(), repr=False)
    seed: int = SEED

    def random(self, attack: str, prompt: Prompt) -> Random:
        """A random generator that depends only on the seed, the attack and the prompt's id."""
        return Random(f"{self.seed} {attack} {prompt.id}")

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[Prompt]]:
        """Prompts made from the same source, by cluster."""
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
    """Another way to ask for what a plain prompt asks for.

    Attributes:
        source: publication that it comes from.
        description: what it does to a prompt, in half a sentence.
        rewrite: function that gives the messages to send; a prompt whose messages it leaves as they
            are counts as not rewritten.
        unfit: what the prompts that it cannot rewrite have in common; empty if it can rewrite all.
        decode: function that decodes an answer, for attacks that ask for an encoded one; it takes
            any text, and leaves text that is not encoded as it is.
        sha256: digest of the file with its texts; empty if there is no file.
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
        parameter: what the parameter is, and its range, in words.
        build: makes the attack from the parameter's text; raises ValueError for an invalid one.
        examples: names of some of its attacks.
    """

    name: str
    source: str
    description: str
    parameter: str
    build: Callable[[str], Attack]
    examples: tuple[str, ...]


def worded(wording: Callable[[str], str | None]) -> Rewrite:
    """Make a rewrite from a function of the last turn's text; None where that gives none."""

    def rewrite(prompt: Prompt, given: Given) -> Sequence[Message] | None:
        text = wording(prompt.request)
        if text is None:
            return None
        return *prompt.messages[:-1], replace(prompt.messages[-1], content=text)

    return rewrite


def after_system(
    messages: Sequence[Message], turns: Sequence[Message]
) -> tuple[Message, ...]:
    """Insert turns before the first message that is not the system's."""
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    return *messages[:count], *turns, *messages[count:]
