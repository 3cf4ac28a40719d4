"""Turn validation errors into plain words: what to write first, then why."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_RULES = {
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be above {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be below {lt:g}",
    "finite_number": "must be a finite number",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": 'must be text in quotes, "..."',
    "dict_type": "must be a table, {{ KEY = VALUE }}",
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, [...]"),
    **dict.fromkeys(("literal_error", "enum"), "must be one of: {expected}"),
    "string_pattern_mismatch": "must have the form {pattern}",
    "missing": "is missing",
    "too_short": "must have at least {min_length} items",
    **dict.fromkeys(
        ("date_from_datetime_parsing", "date_parsing", "date_type"),
        "must be a date, YYYY-MM-DD",
    ),
    "json_invalid": "is not valid JSON: {error}",
}
"""Plain words for pydantic's error types, with its details filled in."""


def suggest(name: str, names: Iterable[str], least: float = 0.5) -> str:
    """``; did you mean "..."?`` for the most similar name, if one is similar enough.

    ``least`` is the lowest similarity that counts, from 0 to 1.
    """
    similar = get_close_matches(name, list(names), n=1, cutoff=least)
    if not similar:
        return ""
    return f'; did you mean "{similar[0]}"?'


def lead_with_hint(hint: str) -> str:
    """Turn a hint of ``suggest`` into the start of "name ..."; empty without a hint."""
    if not hint:
        return ""
    return f"{hint.removeprefix('; ')} If not, "


def write_share(value: float) -> str:
    """Write a percentage as a share: 20 becomes 0.20."""
    if value == int(value):
        return f"{value / 100:.2f}"
    return f"{value / 100:g}"


def first_error(fault: ValidationError) -> ErrorDetails:
    """The error that helps most: an unknown key if there is one, else the first."""
    errors = fault.errors()
    for error in errors:
        if error["type"] == "extra_forbidden":
            return error
    return errors[0]


def error_key(error: ErrorDetails) -> str:
    """The key of a wrong value, without type names."""
    parts = []
    for part in map(str, error["loc"]):
        if not re.match(r"[A-Z]|literal\[|function-", part):
            parts.append(part)
    return ".".join(parts)


def describe_error(error: ErrorDetails, settings: type[BaseModel] | None = None) -> str:
    """Say what is wrong and what to write; ``settings`` is the class that was validated."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _describe_unknown_key(error, settings)
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    if kind == "model_type":
        return _suggest_table(error, settings)
    if kind == "string_pattern_mismatch" and settings and error["loc"]:
        # A field with a pattern describes it in words.
        field = settings.model_fields.get(str(error["loc"][0]))
        if field and field.description:
            return f"must be {field.description}"
    rule = _RULES.get(kind, "is not valid here").format(**context)
    return _suggest_value(value, kind, context) + rule


def _describe_unknown_key(error: ErrorDetails, settings: type[BaseModel] | None) -> str:
    keys = _valid_keys(error, settings)
    hint = suggest(str(error["loc"][-1]), keys)
    if not keys:
        return f"no such key{hint}"
    return f"no such key{hint} (known: {', '.join(keys)})"


def _suggest_table(error: ErrorDetails, settings: type[BaseModel] | None) -> str:
    model = _find_table(error, settings)
    names = list(model.model_fields) if model else []
    needed = [
        name for name in names if model and model.model_fields[name].is_required()
    ]
    value = error["input"]
    if len(needed) > 1 or isinstance(value, bool):
        value = "..."
    keys = ", ".join(f"{name} = {value}" for name in needed or names[:1] or ["..."])
    alternative = "leave it out, or " if isinstance(error["input"], bool) else ""
    return f"{alternative}write {{ {keys} }}"


def _suggest_value(value: Any, kind: str, context: dict[str, Any]) -> str:
    """What to write instead of a value, if it can be guessed."""
    most = context.get("le", context.get("lt"))
    if most == 1 and isinstance(value, int | float) and 2 <= value <= 100:
        return f"write {write_share(value)}: "

    if kind == "literal_error" and isinstance(value, str):
        options = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        similar = get_close_matches(value, options, n=1, cutoff=0.5)
        if similar:
            return f'write "{similar[0]}": '
    return ""


def _valid_keys(error: ErrorDetails, settings: type[BaseModel] | None) -> list[str]:
    """The valid keys of the table that has an unknown key."""
    model = _find_table(error, settings)
    return list(model.model_fields) if model else []


def _find_table(
    error: ErrorDetails, settings: type[BaseModel] | None
) -> type[BaseModel] | None:
    """The class of the table that has the error, or that the wrong value should be."""
    model = settings
    for part in error["loc"]:
        field = model.model_fields.get(str(part)) if model else None
        if field is None:
            continue
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                model = kind
                break
    return model
