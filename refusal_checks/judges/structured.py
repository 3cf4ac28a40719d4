"""Judges whose model gives one structured verdict, which is read strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from refusal_checks.core.errors import ModelError
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Binary, Chosen, Graded, Invalid, Reason
from refusal_checks.judges import template
from refusal_checks.judges.base import Judge, JudgeSetup

Verdict = TypeVar("Verdict", Binary, Graded, Chosen)
Fields = TypeVar("Fields", bound=BaseModel)


@dataclass(frozen=True)
class Reading(Generic[Verdict]):
    """How one kind of judge's output is read.

    Attributes:
        formats: by each format that a template may declare: the parser, and the JSON schema if the
            output has one, its fields in the order in which the model writes them.
        version: part of the judge's identity; raised when a parser changes.
    """

    formats: Mapping[str, tuple[Callable[[str], Verdict | Invalid], Mapping[str, Any] | None]]
    version: int


def build(setup: JudgeSetup | None, prompt: str, demo: str, reading: Reading[Verdict]) -> Judge:
    """Make a judge that asks a model.

    Args:
        prompt, demo: see ``JudgeSetup.prompt``.

    Raises:
        ModelError: there is no model, or the prompt cannot be used.
    """
    from refusal_checks.judges.asking import (
        StructuredJudge,
    )  # HTTP, which collection need not import

    if setup is None:
        raise ModelError("name a model with --judge: this benchmark needs a judge that is a model")
    instructions = template.load(setup.prompt(prompt, demo), tuple(reading.formats))
    return StructuredJudge(setup, instructions, reading)


def last_verdict(text: str, form: type[Fields]) -> Fields | Invalid:
    """The last structured verdict in a judge's output; words around it decide nothing.

    Pieces of another verdict beside it (a truncated object, one with other fields, one that quotes
    the answer without escapes) make the output unreadable: nothing tells which is the judge's own.

    Args:
        form: the fields of a verdict; an object with other fields is not a verdict.

    Returns:
        The verdict; Invalid if the text has no JSON object with exactly these fields, or pieces of
        another.
    """
    verdict, rest, end = None, "", 0
    for value, start, stop in _json_objects(text):
        try:
            verdict = form.model_validate(value)
        except ValidationError:
            continue
        rest, end = rest + text[end:start], stop
    piece = rf'"(?:{"|".join(form.model_fields)})"\s*:'
    if verdict is None or re.search(piece, rest + text[end:]):
        return Invalid(Reason.UNPARSABLE_VERDICT, storable(text[:200]))
    return verdict


def _json_objects(text: str) -> Iterator[tuple[Any, int, int]]:
    """The outermost JSON objects in a text, with their spans."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            yield value, start, end
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)


def _unique(pairs: list[tuple[str, Any]]) -> Any:
    """A dict; an object that has a key twice is ambiguous and stays a list of pairs."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else pairs
