"""What is wrong with a value, in plain words: what to write first, then why."""

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
    "string_type": 'must be a text in quotes, "..."',
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
"""Plain words for pydantic's types of errors, with what it says of each."""

_NUMBER = re.compile(r"\s*([+-]?\d+(?:[.,]\d+)?)\s*(%?)\s*")


def near(name: str, known: Iterable[str], least: float = 0.5) -> str:
    """``; did you mean "..."?`` if a name is similar, by ``least`` (0 to 1) or more; else empty."""
    found = get_close_matches(name, list(known), n=1, cutoff=least)
    return f'; did you mean "{found[0]}"?' if found else ""


def either(hint: str) -> str:
    """What ``near`` says, in front of "name ..."; nothing if it says nothing."""
    return f"{hint.removeprefix('; ')} If not, " if hint else ""


def share(value: float) -> str:
    """A number of per cent as the share that it stands for."""
    return f"{value / 100:.2f}" if value == int(value) else f"{value / 100:g}"


def first(fault: ValidationError) -> ErrorDetails:
    """The error that says most: an unknown key first, and none of a union's other branches."""
    errors = fault.errors()
    unknown = (error for error in errors if error["type"] == "extra_forbidden")
    return next(unknown, errors[0])


def key(error: ErrorDetails) -> str:
    """The key of a value that is wrong, without the names of types."""
    parts = map(str, error["loc"])
    return ".".join(
        part for part in parts if not re.match(r"[A-Z]|literal\[|function-", part)
    )


def problem(error: ErrorDetails, settings: type[BaseModel] | None = None) -> str:
    """What is wrong and what to write; ``settings`` is what the value was read as."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    known = _known(error, settings)
    if kind == "extra_forbidden":
        listed = f" (known: {', '.join(known)})" if known else ""
        return f"no such key{near(str(error['loc'][-1]), known)}{listed}"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    if kind == "model_type":
        shown = "..." if isinstance(value, bool) else value
        return f"write {{ {known[0] if known else '...'} = {shown} }}"
    field = (
        settings.model_fields.get(str(error["loc"][0]))
        if settings and error["loc"]
        else None
    )
    if kind == "string_pattern_mismatch" and field and field.description:
        return f"must be {field.description}"
    return _better(value, kind, context) + _RULES.get(kind, "is not valid here").format(
        **context
    )


def _better(value: Any, kind: str, context: dict[str, Any]) -> str:
    """What to write in place of a value, if that can be told."""
    number = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if number and kind.startswith(("float", "int_")):
        plain = number[1].replace(",", ".")
        return f"write {share(float(plain)) if number[2] else plain}: "
    most = context.get("le", context.get("lt"))
    if most == 1 and isinstance(value, int | float) and 2 <= value <= 100:
        return f"write {share(value)}: "
    if kind == "literal_error" and isinstance(value, str):
        options = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        found = get_close_matches(value, options, n=1, cutoff=0.5)
        return f'write "{found[0]}": ' if found else ""
    return ""


def _known(error: ErrorDetails, settings: type[BaseModel] | None) -> list[str]:
    model = settings
    for part in error["loc"]:
        field = model.model_fields.get(str(part)) if model else None
        if field:
            kinds = (field.annotation, *get_args(field.annotation))
            inner = [kind for kind in kinds if isinstance(kind, type)]
            model = next((kind for kind in inner if issubclass(kind, BaseModel)), model)
    return list(model.model_fields) if model else []
