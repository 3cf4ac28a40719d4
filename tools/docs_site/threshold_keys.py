"""The keys of threshold files, from the settings classes and their docstrings."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from refusal_checks.core.settings import BenchmarkTable, Frozen, Sampling
from refusal_checks.gates.tables import Bounds, GateSettings, WaiverTable
from refusal_checks.judges.trust.canary import Ceiling, Floor, JudgeFloors
from tools.docs_site.markdown import code, sentence, table

TABLES: Mapping[str, type[Frozen]] = {
    "bounds": Bounds,
    "settings": GateSettings,
    "sampling": Sampling,
    "judge": JudgeFloors,
    "benchmark": BenchmarkTable,
}

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    tuple: "list of texts",
    list: "list of texts",
    dict: "table",
    datetime.date: "date",
    Floor: "`{ min = ... }`",
    Ceiling: "`{ max = ... }`",
    WaiverTable: "`{ until = YYYY-MM-DD, by = ..., reason = ... }`",
}
_SIGNS = {Ge: ("at least", "ge"), Gt: ("above", "gt"), Le: ("at most", "le"), Lt: ("below", "lt")}


def as_table(settings: type[Frozen]) -> str:
    """The keys of one table: what each takes, its default and its meaning."""
    meanings = described(settings)
    rows = (
        (code(name), _takes(field), _default(field), sentence(meanings.get(name, "")))
        for name, field in settings.model_fields.items()
    )
    return table(("key", "takes", "default", "meaning"), rows)


def described(settings: type[Frozen]) -> dict[str, str]:
    """What each field means: its description, else its line in the class's docstring."""
    found: dict[str, str] = {}
    for names, text in _attributes(settings).items():
        found |= dict.fromkeys(names.split(", "), _as_markdown(text))
    own = {name: field.description for name, field in settings.model_fields.items()}
    return {name: found.get(name) or own[name] or "" for name in settings.model_fields}


def _attributes(settings: type[Frozen]) -> dict[str, str]:
    """The section "Attributes" of the docstring."""
    section = (settings.__doc__ or "").partition("Attributes:")[2]
    entries = re.findall(r"^ {4,8}(\w[\w, ]*): (.*(?:\n {9,}.*)*)", section, flags=re.MULTILINE)
    return {names: " ".join(text.split()) for names, text in entries}


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


def _takes(field: FieldInfo) -> str:
    """The type in words, with its range."""
    limits = (
        f"{word} {getattr(rule, name)}"
        for rule in field.metadata
        for kind, (word, name) in _SIGNS.items()
        if isinstance(rule, kind)
    )
    return ", ".join([*_words(field.annotation), *limits])


def _words(kind: Any) -> Iterator[str]:
    """The parts of a type, each in a word or two; None is no part of its own."""
    if get_origin(kind) is Literal:
        yield " or ".join(code(json.dumps(value)) for value in get_args(kind))
    elif get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not type(None)]
        yield " or ".join(word for part in parts for word in _words(part))
    else:
        yield _WORDS[get_origin(kind) or kind]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Floor | Ceiling):
        return code("{ " + ", ".join(f"{k} = {v:g}" for k, v in value) + " }")
    return "" if value in (None, "", (), {}) else code(json.dumps(value))
