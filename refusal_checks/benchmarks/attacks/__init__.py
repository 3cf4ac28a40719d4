"""Attacks on prompts. Each module here, and each extension, adds its ``ATTACKS``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from refusal_checks.benchmarks.attacks import artifact
from refusal_checks.benchmarks.attacks.base import Attack, Family
from refusal_checks.core import extensions
from refusal_checks.core.errors import UserError, require_known
from refusal_checks.core.extensions import Extension, ExtensionError

__all__ = ["ALL", "Attack", "Family", "discover", "find", "is_known", "names"]

ALL = "attacks"
"""Stands for all attacks on a benchmark together, so no attack has this name."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def discover() -> dict[str, Attack | Family]:
    """Every attack and family of attacks by name, of this package and of extensions.

    Raises:
        ExtensionError: two have the same name, or one has a name that no file can have.
    """
    return dict(_discover(extensions.known()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, Attack | Family]:
    names = extensions.Names("attacks")
    known: dict[str, Attack | Family] = {}
    for one in extensions.providers(__name__, __path__, "ATTACKS"):
        for attack in getattr(one.module, "ATTACKS", ()):
            _require_sound(attack, one.origin)
            names.add(attack.name, one.origin)
            known[attack.name] = attack
    return known


def _require_sound(attack: object, origin: str) -> None:
    if not isinstance(attack, Attack | Family):
        raise ExtensionError(
            f"extension {origin}: ATTACKS must hold Attack or Family values, not "
            f"{type(attack).__name__}"
        )
    if not _NAME.fullmatch(attack.name) or attack.name == ALL:
        raise ExtensionError(
            f"extension {origin}: rename the attack {attack.name!r}: a name has up to 40 small "
            f'letters, digits and _, begins with a letter, and is not "{ALL}"'
        )


def names() -> list[str]:
    """The names that a threshold file can give, with examples for families."""
    listed: Iterable[tuple[str, ...]] = (
        one.examples if isinstance(one, Family) else (one.name,) for one in discover().values()
    )
    return [name for several in listed for name in several]


def find(name: str, where: str, error: type[UserError] = UserError) -> Attack:
    """The attack of a name, such as ``base64`` or ``many_shot_32``.

    Args:
        where: what names it, for messages.

    Raises:
        UserError: there is none; names the nearest, or what the parameter must be.
    """
    known = discover()
    found = known.get(name) or artifact.known(name)
    if isinstance(found, Attack):
        return found
    family = found or _family(name, known.values())
    if family is None:
        require_known(name, names(), where, "attack", error)
        raise AssertionError(name)
    example = family.examples[0]
    try:
        return family.build(name.removeprefix(family.name)[1:])
    except ValueError:
        raise error(
            f"{where}: write {family.name}_ with {family.parameter}, for example {example}: no "
            f'attack "{name}"'
        ) from None


def is_known(name: str) -> bool:
    """True if there is an attack of this name."""
    try:
        find(name, "")
    except UserError:
        return False
    return True


def _family(name: str, known: Iterable[Attack | Family]) -> Family | None:
    fitting = [
        one for one in known if isinstance(one, Family) and name.startswith((f"{one.name}_",))
    ]
    return max(fitting, key=lambda one: len(one.name), default=None)
