"""Attacks on prompts, and benchmarks under attack: the same prompts, rewritten by one attack.

Each module here, and each extension, adds its ``ATTACKS``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from refusal_checks.benchmarks.attacks import recorded
from refusal_checks.benchmarks.attacks.attack import Attack, Family, Given
from refusal_checks.benchmarks.attacks.encodings import hidden_text
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.extensions import Extension, ExtensionError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.text import storable

__all__ = ["Attack", "Family"]

ALL = "attacks"
"""Stands for all attacks on a benchmark together, so no attack has this name."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def discover() -> dict[str, Attack | Family]:
    """Every attack and family of attacks, of this package and of extensions, by name."""
    return dict(_discover(extensions.known()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, Attack | Family]:
    names = extensions.Names("attacks")
    attacks: dict[str, Attack | Family] = {}
    for provider in extensions.providers(__name__, __path__, "ATTACKS"):
        for attack in getattr(provider.module, "ATTACKS", ()):
            if not isinstance(attack, Attack | Family):
                raise ExtensionError(
                    f"extension {provider.origin}: ATTACKS must hold Attack or Family values, not "
                    f"{type(attack).__name__}"
                )
            if not _NAME.fullmatch(attack.name) or attack.name == ALL:
                raise ExtensionError(
                    f"extension {provider.origin}: rename the attack {attack.name!r}: a name has "
                    "up to 40 small letters, digits and _, begins with a letter, and is not "
                    f'"{ALL}"'
                )
            names.add(attack.name, provider.origin)
            attacks[attack.name] = attack
    return attacks


def names() -> list[str]:
    """Names that a run file can give, with examples for families."""
    listed: list[str] = []
    for attack in discover().values():
        if isinstance(attack, Family):
            listed += attack.examples
        else:
            listed.append(attack.name)
    return listed


def find(name: str, where: str, error: type[UserError] = UserError) -> Attack:
    """Find an attack by name, such as ``base64`` or ``many_shot_32``.

    An error begins with ``where``, and gives the nearest name or the valid parameters.
    """
    attacks = discover()
    attack = attacks.get(name) or recorded.known(name)
    if isinstance(attack, Attack):
        return attack
    families = []
    for family in attacks.values():
        begins = name == family.name or name.startswith(f"{family.name}_")
        if isinstance(family, Family) and begins:
            families.append(family)
    if not families:
        require_known(name, names(), where, "attack", error)
    family = max(families, key=lambda family: len(family.name))
    try:
        return family.build(name.removeprefix(family.name)[1:])
    except ValueError:
        raise error(
            f"{where}: write {family.name}_ with {family.parameter}, for example "
            f'{family.examples[0]}: no attack "{name}"'
        ) from None


def is_known(name: str) -> bool:
    try:
        return bool(find(name, ""))
    except UserError:
        return False


Attacked = Mapping[str, Sequence[str]]
"""Names of the attacks on each benchmark."""


def name_of(benchmark: str, attack: str) -> str:
    """The name of a benchmark under an attack, such as ``jailbreakbench+prefill``."""
    return f"{benchmark}+{attack}"


def derived(
    benchmarks: Mapping[str, Benchmark], attacked: Attacked
) -> Iterator[Benchmark]:
    """The benchmarks under attack, and for each plain one a benchmark for all attacks on it.

    In the latter, each prompt counts under its most effective attack (``metrics.worst_case``).
    """
    for name, names in attacked.items():
        plain = benchmarks[name]
        yield from (_under(plain, attack) for attack in names)
        yield replace(
            plain,
            name=name_of(name, ALL),
            description=f"{plain.description}; each by its worst attack of {', '.join(names)}",
            attack=ALL,
            plain=name,
            under=tuple(name_of(name, attack) for attack in names),
            original=None,
            parts=(),
        )


def _under(benchmark: Benchmark, attack: str) -> Benchmark:
    name = name_of(benchmark.name, attack)
    rewriting = find(attack, name)
    return replace(
        benchmark,
        name=name,
        description=f"{benchmark.description}; {rewriting.description}",
        attack=rewriting.name,
        plain=benchmark.name,
        original=benchmark.original and _under(benchmark.original, attack),
        parts=(),
    )


def rewrite(
    attack: Attack,
    prompts: Iterable[Prompt],
    given: Given = Given(),  # noqa: B008 (it is frozen)
) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    """Rewrite prompts; return them and those that the attack cannot rewrite.

    Raises DataError if an extension's code fails.
    """
    done: list[Prompt] = []
    left_out: list[Prompt] = []
    for prompt in prompts:
        messages = _rewritten(attack, prompt, given)
        if messages is None or messages == prompt.messages:
            left_out.append(prompt)
            continue
        attacked = replace(
            prompt, messages=messages, attack=attack.name, plain=prompt.messages
        )
        done.append(attacked)
    return tuple(done), tuple(left_out)


def _rewritten(
    attack: Attack, prompt: Prompt, given: Given
) -> tuple[Message, ...] | None:
    """The messages that an attack sends instead of a prompt's; DataError if they are not valid."""
    repair = f"attack {attack.name}: repair the extension that brings it, or leave the attack out: "
    try:
        messages = attack.rewrite(prompt, given)
        if messages is None:
            return None
        messages = tuple(messages)
    except UserError:
        raise
    except Exception as fault:
        why = f"it failed on prompt {prompt.id}: {type(fault).__name__}: {fault}"
        raise DataError(repair + why) from fault
    if messages == prompt.messages or _have_texts(messages):
        return messages
    raise DataError(
        f"{repair}for prompt {prompt.id} it gives no messages, or some without text"
    )


def _have_texts(messages: tuple[object, ...]) -> bool:
    """True if these are messages with texts, and the last one is not empty."""
    texts = []
    for message in messages:
        if not isinstance(message, Message) or not isinstance(message.content, str):
            return False
        texts.append(message.content)
    return bool(texts) and bool(texts[-1].strip())


def as_judged(prompt: Prompt, completion: Completion) -> tuple[Prompt, Completion]:
    """What a judge reads: the plain request, and the answer without the attack's encoding.

    Below an answer with base64 stands what that reads.
    """
    text = completion.text
    if prompt.attack:
        text = _decoded(prompt, text)
    hidden = hidden_text(text)
    if hidden:
        text = f"{text}\n\n[The base64 above reads:]\n{storable(hidden)}"
    if text != completion.text:
        completion = replace(completion, text=text)
    return prompt.original if prompt.attack else prompt, completion


def _decoded(prompt: Prompt, text: str) -> str:
    """An answer without the encoding of its prompt's attack."""
    try:
        plain: object = find(prompt.attack, "").decode(text)
        if not isinstance(plain, str):
            raise TypeError(f"decode gave no text but {type(plain).__name__}")
        return storable(plain) if plain.strip() else text
    except (
        UserError,
        ValueError,
    ):  # of an extension that is not loaded; what no code decodes
        return text
    except Exception as fault:
        raise DataError(
            f"attack {prompt.attack}: repair the extension that brings it: it failed to decode an "
            f"answer: {type(fault).__name__}: {fault}"
        ) from fault
