"""The keys of a run file's tables, from the settings classes and their docstrings."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from refusal_checks.gates.gate import Waiver
from refusal_checks.trust.minimums import Maximum, Minimum
from tools.docs_site.markdown import code, sentence, table

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "table",
    datetime.date: "date",
    Minimum: "`{ min = ... }`",
    Maximum: "`{ max = ... }`",
    Waiver: "`{ until = YYYY-MM-DD, by = ..., reason = ... }`",
}
_SIGNS = {
    Ge: ("at least", "ge"),
    Gt: ("above", "gt"),
    Le: ("at most", "le"),
    Lt: ("below", "lt"),
}


def as_table(
    settings: type[BaseModel],
    options: Mapping[str, str],
    elsewhere: Collection[str] = (),
) -> str:
    """List the keys of one table with type, default and meaning.

    Keys that are described in the same words share a row.

    Args:
        settings: the class of the table.
        options: the command-line option of each key that has one. These keys come first.
        elsewhere: keys to leave out.
    """
    meanings = described(settings)
    others = [name for name in settings.model_fields if name not in options]
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for name in [*options, *others]:
        if name in elsewhere:
            continue
        keys, takes = rows.setdefault(sentence(meanings[name]), ([], []))
        keys.append(named(name, options))
        takes.append(_takes(settings.model_fields[name]))
    return table(
        ["key", "takes (default)", "meaning"],
        [
            [", ".join(keys), "; ".join(dict.fromkeys(takes)), meaning]
            for meaning, (keys, takes) in rows.items()
        ],
    )


def named(name: str, options: Mapping[str, str]) -> str:
    """A key, with its option if it has one."""
    if name in options:
        return f"{code(name)}, {code(options[name])}"
    return code(name)


def described(settings: type[BaseModel]) -> dict[str, str]:
    """Find the meaning of each key in the class's docstring, else in its field's description."""
    from_docstring: dict[str, str] = {}
    for names, text in _attributes(settings).items():
        for name in names.split(", "):
            from_docstring[name] = text.replace("``", "`")
    fields = settings.model_fields.items()
    return {
        name: from_docstring.get(name) or field.description or ""
        for name, field in fields
    }


def _attributes(settings: type[BaseModel]) -> dict[str, str]:
    """Parse the section "Attributes" of the docstring."""
    section = (settings.__doc__ or "").partition("Attributes:")[2]
    entries = re.findall(
        r"^ {4,8}(\w[\w, ]*): (.*(?:\n {9,}.*)*)", section, flags=re.MULTILINE
    )
    return {names: " ".join(text.split()) for names, text in entries}


def _takes(field: FieldInfo) -> str:
    """Describe the type in words, with its range and default."""
    words = list(_words(field.annotation))
    if get_origin(field.annotation) is tuple and _takes_one_value(field):
        # A key of several values also takes a single one.
        item = get_args(field.annotation)[0]
        words = [f"{word} or {words[0]}" for word in _words(item)]
    bounds = []
    for rule in field.metadata:
        for kind, (word, name) in _SIGNS.items():
            if isinstance(rule, kind):
                bounds.append((word, getattr(rule, name)))
    if [word for word, _ in bounds] == ["at least", "at most"]:
        words.append(f"{bounds[0][1]} to {bounds[1][1]}")
    else:
        words += [f"{word} {bound}" for word, bound in bounds]
    text = ", ".join(words)
    default = _default(field)
    return f"{text} ({default})" if default else text


def _takes_one_value(field: FieldInfo) -> bool:
    return any(isinstance(rule, BeforeValidator) for rule in field.metadata)


def _words(kind: Any) -> Iterator[str]:
    """Yield the parts of a type in a word or two each, except None."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        yield ", ".join(code(json.dumps(value)) for value in get_args(kind))
    elif origin is Annotated:
        yield from _words(get_args(kind)[0])
    elif origin in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not type(None)]
        yield " or ".join(word for part in parts for word in _words(part))
    elif origin in (tuple, list):
        items = " or ".join(_words(get_args(kind)[0]))
        yield f"list of {items}s"
    elif origin in _WORDS:
        yield _WORDS[origin]
    else:
        assert issubclass(origin, BaseModel), kind
        yield "table"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Minimum | Maximum):
        return code(
            "{ " + ", ".join(f"{key} = {bound:g}" for key, bound in value) + " }"
        )
    if isinstance(value, BaseModel) or value in (None, "", (), {}):
        return ""
    if isinstance(value, float):
        return code(f"{value:g}")
    return code(json.dumps(value))
