"""Judges whose model gives one structured verdict, which is read strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from refusal_checks.core.errors import ModelError
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Binary, Chosen, Graded, Harm, Invalid, Reason
from refusal_checks.judges import template
from refusal_checks.judges.base import Judge, JudgeSetup
from refusal_checks.judges.template import JudgePrompt

Verdict = TypeVar("Verdict", Binary, Graded, Harm, Chosen)
Fields = TypeVar("Fields", bound=BaseModel)


@dataclass(frozen=True)
class Reading(Generic[Verdict]):
    """How one kind of judge's output is read.

    Attributes:
        formats: by each format that a template may declare: the parser, and the JSON schema if the
            output has one, its fields in the order in which the model writes them.
        version: part of the judge's identity; raised when a parser changes.
        stricter: a schema that also forbids what the parser refuses. It is asked for first, and no
            part of the identity; servers that refuse it get the format's own.
        alone: how a verdict without reasons is read, whatever the format; None if these verdicts
            are always asked for whole.
        terse: formats that have no reasons.
    """

    formats: Mapping[str, tuple[Callable[[str], Verdict | Invalid], Mapping[str, Any] | None]]
    version: int
    stricter: Mapping[str, Any] | None = None
    alone: Reading[Verdict] | None = None
    terse: frozenset[str] = frozenset()


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
    found = template.load(setup.prompt(prompt, demo), tuple(reading.formats))
    instructions = found.with_rubric(setup.category_guide)
    whole = StructuredJudge(setup, instructions, reading)
    is_whole = setup.rationales == "all" or instructions.format in reading.terse
    if is_whole or (alone := reading.alone) is None:
        return whole
    return StructuredJudge(setup, _without_reasons(instructions), alone, whole)


def _without_reasons(instructions: JudgePrompt) -> JudgePrompt:
    """The instructions to give the verdict alone.

    Raises:
        ModelError: the template does not say which part of it orders the form of the answer.
    """
    if instructions.alone is None:
        raise ModelError(
            f"--rationales offenders: in {instructions.name}, write a line {template.ORDER} above "
            f"what orders the form of the answer, and below that a line {template.ALONE} and the "
            'order to reply "refusal" or "compliance" alone; or leave out --rationales. Without '
            "these lines nothing tells how to ask for the verdict alone"
        )
    return replace(instructions.alone, format=template.JSON)


MOST_CHARACTERS = 200_000
"""Characters of a judge's output that are parsed; a verdict is never as long."""

MOST_BROKEN = 50
"""Broken objects in a judge's output after which it is unreadable."""

_FREE_TEXT = frozenset({"rationale", "analysis"})
"""Fields in which two verdicts that say the same may differ."""


def last_verdict(text: str, form: type[Fields]) -> Fields | Invalid:
    """The last structured verdict in a judge's output; words around it decide nothing.

    Two verdicts that differ, and pieces of another verdict (a truncated object, one with other
    fields, one that quotes the answer without escapes) make the output unreadable: nothing tells
    which is the judge's own. Line feeds in a text and a comma at an object's end are forgiven.

    Args:
        form: the fields of a verdict; an object with other fields is not a verdict.

    Returns:
        The verdict; Invalid if the text has no JSON object with exactly these fields, pieces of
        another, or two that differ.
    """
    if len(text) > MOST_CHARACTERS:
        return _unreadable(text)
    if _A_LAST_COMMA.search(text):
        text = _LAST_COMMA.sub(r"\1\2", text)
    found: list[Fields] = []
    rest, end = "", 0
    for value, start, stop in _json_objects(text):
        try:
            found.append(form.model_validate(value))
        except ValidationError:
            continue
        rest, end = rest + text[end:start], stop
    piece = rf'"(?:{"|".join(form.model_fields)})"\s*+:'
    if not _agree(found) or re.search(piece, rest + text[end:]):
        return _unreadable(text)
    return found[-1]


def _agree(verdicts: Sequence[BaseModel]) -> bool:
    """True for one verdict, and for several that say the same."""
    if len(verdicts) < 2:
        return bool(verdicts)
    return len({each.model_dump_json(exclude=set(_FREE_TEXT)) for each in verdicts}) == 1


def _unreadable(text: str) -> Invalid:
    return Invalid(Reason.UNPARSABLE_VERDICT, storable(text[:200]))


_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))|,(\s*+\})', re.DOTALL)
"""Texts in quotes, which stay, and a comma before the end of an object, which goes."""

_A_LAST_COMMA = re.compile(r",\s*+\}")
"""Such a comma, perhaps within a text."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_OPENING = re.compile(r'\{(?=\s*+["}])')


def _json_objects(text: str) -> Iterator[tuple[Any, int, int]]:
    """The outermost JSON objects in a text, with their spans, up to ``MOST_BROKEN`` broken ones."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
    broken, opening = 0, _OPENING.search(text)
    while opening and broken < MOST_BROKEN:
        start = opening.start()
        try:
            value, end = decoder.raw_decode(text, start)
            if not _CONTROLS.search(text, start, end):
                yield value, start, end
        except (ValueError, RecursionError):
            end, broken = start + 1, broken + 1
        opening = _OPENING.search(text, end)


def _unique(pairs: list[tuple[str, Any]]) -> Any:
    """A dict; an object that has a key twice is ambiguous and stays a list of pairs."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else pairs
