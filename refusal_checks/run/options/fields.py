"""Options that are fields of settings: name, type, default and help come from the field alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from refusal_checks.core.settings import Settings
from refusal_checks.run.options.call import Call

_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "FILE"}


def add(group: pytest.OptionGroup, settings: type[Settings], prefix: str = "") -> None:
    """Declare one option per field of the settings.

    Args:
        prefix: begins the options' names, for example ``judge_`` for ``--judge-seed``.
    """
    for name, field in settings.model_fields.items():
        group.addoption(f"--{prefix}{name}".replace("_", "-"), **_declared(field))


def read(
    config: Call, settings: type[Settings], values: Mapping[str, Any], prefix: str = ""
) -> Settings:
    """The settings: an option that was given wins over ``values``, which win over the default.

    Raises:
        UserError: a value is out of range.
    """
    options = {name: config.getoption(prefix + name) for name in settings.model_fields}
    given = {name: value for name, value in options.items() if value is not None}
    option = f" (--{prefix}...)".replace("_", "-") if prefix else ""
    return settings.read({**values, **given}, f"command line{option}")


def _declared(field: FieldInfo) -> dict[str, Any]:
    """The field as arguments of ``addoption``."""
    kind: Any = field.annotation
    if isinstance(kind, UnionType):  # "int | None"
        kind = get_args(kind)[0]
    text = field.description
    if field.default not in (None, "", ()):
        default = f"{field.default:g}" if isinstance(field.default, float) else field.default
        text = f"{text} (default: {default})"
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind), "help": text}
    if get_origin(kind) is tuple:
        return {"action": "append", "metavar": "TEXT", "help": f"{text} (repeatable)"}
    return {"type": kind, "metavar": _METAVARS[kind], "help": text}
