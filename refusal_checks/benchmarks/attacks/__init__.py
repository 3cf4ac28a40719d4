"""Attacks on prompts, and benchmarks under attack: the same prompts, each rewritten by one attack.

Each module here, and each extension, adds its ``ATTACKS``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from refusal_checks.benchmarks.attacks import recorded
from refusal_checks.benchmarks.attacks.attack import Attack, Family, Given
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
    """Every attack and family of attacks by name, of this package and of extensions."""
    return dict(_discover(extensions.known()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, Attack | Family]:
    names = extensions.Names("attacks")
    known: dict[str, Attack | Family] = {}
    for one in extensions.providers(__name__, __path__, "ATTACKS"):
        for attack in getattr(one.module, "ATTACKS", ()):
            if not isinstance(attack, Attack | Family):
                raise ExtensionError(
                    f"extension {one.origin}: ATTACKS must hold Attack or Family values, not "
                    f"{type(attack).__name__}"
                )
            if not _NAME.fullmatch(attack.name) or attack.name == ALL:
                raise ExtensionError(
                    f"extension {one.origin}: rename the attack {attack.name!r}: a name has up to "
                    f'40 small letters, digits and _, begins with a letter, and is not "{ALL}"'
                )
            names.add(attack.name, one.origin)
            known[attack.name] = attack
    return known


def names() -> list[str]:
    """The names that a run file can give, with examples for families."""
    known = discover().values()
    return [name for one in known for name in getattr(one, "examples", (one.name,))]


def find(name: str, where: str, error: type[UserError] = UserError) -> Attack:
    """The attack of a name, such as ``base64`` or ``many_shot_32``.

    The error begins with ``where``, and names the nearest, or what its parameter must be.
    """
    known = discover()
    found = known.get(name) or recorded.known(name)
    if isinstance(found, Attack):
        return found
    families = [one for one in known.values() if isinstance(one, Family)]
    fitting = [
        one for one in families if name == one.name or name.startswith(f"{one.name}_")
    ]
    if not fitting:
        require_known(name, names(), where, "attack", error)
    family = max(fitting, key=lambda one: len(one.name))
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
    """The name of a benchmark under an attack, ``jailbreakbench+prefill``."""
    return f"{benchmark}+{attack}"


def derived(known: Mapping[str, Benchmark], attacked: Attacked) -> Iterator[Benchmark]:
    """The benchmarks under attack, and for each one that stands for all attacks on it.

    Under that one each prompt counts under its most effective attack (``metrics.worst_case``).
    """
    for name, names in attacked.items():
        plain = known[name]
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
    found = find(attack, name)
    return replace(
        benchmark,
        name=name,
        description=f"{benchmark.description}; {found.description}",
        attack=found.name,
        plain=benchmark.name,
        original=benchmark.original and _under(benchmark.original, attack),
        parts=(),
    )


def rewrite(
    attack: Attack,
    prompts: Iterable[Prompt],
    given: Given = Given(),  # noqa: B008 (it is frozen)
) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    """Prompts after an attack, and those that it cannot rewrite.

    Code of an extension that fails is a DataError.
    """
    done: list[Prompt] = []
    left_out: list[Prompt] = []
    repair = f"attack {attack.name}: repair the extension that brings it, or leave the attack out: "
    for prompt in prompts:
        try:
            found = attack.rewrite(prompt, given)
            messages = None if found is None else tuple(found)
        except UserError:
            raise
        except Exception as fault:
            why = f"it failed on prompt {prompt.id}: {type(fault).__name__}: {fault}"
            raise DataError(repair + why) from fault
        if messages is None or messages == prompt.messages:
            left_out.append(prompt)
            continue
        texts = [one.content if isinstance(one, Message) else None for one in messages]
        are_texts = all(isinstance(text, str) for text in texts)
        if not texts or not are_texts or not str(texts[-1]).strip():
            raise DataError(
                f"{repair}for prompt {prompt.id} it gives no messages, or some without text"
            )
        done.append(
            replace(
                prompt, messages=messages, attack=attack.name, plain=prompt.messages
            )
        )
    return tuple(done), tuple(left_out)


def as_judged(prompt: Prompt, completion: Completion) -> tuple[Prompt, Completion]:
    """What a judge is shown: the plain request, and the answer without the attack's encoding."""
    if not prompt.attack:
        return prompt, completion
    text = completion.text
    try:
        plain: object = find(prompt.attack, "").decode(text)
        if not isinstance(plain, str):
            raise TypeError(f"decode gave no text but {type(plain).__name__}")
        text = storable(plain) if plain.strip() else text
    except (
        UserError,
        ValueError,
    ):  # of an extension that is not loaded; what no code decodes
        pass
    except Exception as fault:
        raise DataError(
            f"attack {prompt.attack}: repair the extension that brings it: it failed to decode an "
            f"answer: {type(fault).__name__}: {fault}"
        ) from fault
    return prompt.original, replace(completion, text=text)
