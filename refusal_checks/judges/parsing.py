"""Parse the output of judge models; whatever is uncertain is invalid.

These are the JSON objects that this project's prompts ask for; ``text_replies`` reads what a
prompt's front matter declares.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from refusal_checks.core.judgements import Invalid, Reason
from refusal_checks.core.text import replace_surrogates

Fields = TypeVar("Fields", bound=BaseModel)

MOST_CHARACTERS = 200_000
"""How many characters of a judge's output are parsed; verdicts are always shorter."""

MOST_BROKEN = 50
"""After this many broken objects in a judge's output, parsing stops."""

_FREE_TEXT = frozenset({"rationale", "analysis"})
"""Fields that may differ between two verdicts that say the same."""

_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))|,(\s*+\})', re.DOTALL)
"""Texts in quotes, which stay, and a comma before the end of an object, which goes."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_OPENING = re.compile(r'\{(?=\s*+["}])')


# A limit, so that an analysis that runs on cannot leave the verdict unfinished; prompts ask for 30
# words, about 200 characters.
ANALYSIS = {"type": "string", "maxLength": 300}


def enum_schema(values: Iterable[object]) -> dict[str, Any]:
    """JSON schema of a string with one of these values."""
    return {"type": "string", "enum": [*map(str, values)]}


def object_schema(**fields: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with these fields, which the model writes in this order."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields],
        "additionalProperties": False,
    }


def reject_output(text: str) -> Invalid:
    return Invalid(Reason.UNPARSABLE_VERDICT, replace_surrogates(text[:200]))


def parse_last_object(text: str, form: type[Fields]) -> Fields | Invalid:
    """The last verdict, an object with exactly the fields of ``form``, in a judge's output.

    Text around it decides nothing. Two different verdicts, or parts of another verdict (a truncated
    object, one with other fields, one that quotes the answer without escapes) make the output
    unreadable, since nothing tells which is the judge's own. Line feeds in strings and a comma at
    an object's end are tolerated.
    """
    if len(text) > MOST_CHARACTERS:
        return reject_output(text)
    # The quick search may find a comma within a text; the second expression tells them apart.
    if re.search(r",\s*+\}", text):
        text = _LAST_COMMA.sub(r"\1\2", text)

    verdicts: list[Fields] = []
    rest, end = "", 0
    for value, start, stop in _json_objects(text):
        try:
            verdict = form.model_validate(value)
        except ValidationError:
            continue
        verdicts.append(verdict)
        rest += text[end:start]
        end = stop
    rest += text[end:]

    # An answer may make the judge quote a verdict. Taking the first or the last of two would let
    # the answer choose.
    if not verdicts or _differ(verdicts):
        return reject_output(text)
    names = "|".join(form.model_fields)
    if re.search(rf'"(?:{names})"\s*+:', rest):  # a piece of another verdict
        return reject_output(text)
    return verdicts[-1]


def _differ(verdicts: Sequence[BaseModel]) -> bool:
    if len(verdicts) == 1:  # nearly always, and writing JSON takes longer than all else
        return False
    exclude = set(_FREE_TEXT)
    return len({verdict.model_dump_json(exclude=exclude) for verdict in verdicts}) > 1


def _json_objects(text: str) -> Iterator[tuple[Any, int, int]]:
    """A text's outermost JSON objects with their spans, up to ``MOST_BROKEN`` broken ones."""
    broken = 0
    opening = _OPENING.search(text)
    while opening and broken < MOST_BROKEN:
        start = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            # Hostile text of many braces must not take quadratic time.
            broken += 1
            end = start + 1
        else:
            if not _CONTROLS.search(text, start, end):
                yield value, start, end
        opening = _OPENING.search(text, end)


def _make_object(pairs: list[tuple[str, Any]]) -> Any:
    """Make a dict; an object with a duplicate key is ambiguous and stays a list of pairs."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else pairs


# Judges put line feeds into texts, which strict JSON forbids.
_DECODER = json.JSONDecoder(object_pairs_hook=_make_object, strict=False)


_SPACE = " \t\r\n"
_END = re.compile(
    r"(?:</s>|<\|(?:im_end|eot_id|endoftext|end|return)\|>|<end_of_turn>)\s*+$"
)
_REASONED = ("</think>", "<|channel|>final<|message|>", "assistantfinal")
"""Texts that end the reasoning in a recorded output; the last is what is left of gpt-oss's tokens
where these were dropped."""


def strip_ends(text: str) -> str:
    """An output without surrounding white space and end-of-text tokens."""
    return _END.sub("", text.strip(_SPACE)).strip(_SPACE)


def strip_reasoning(text: str) -> str:
    """The part of an output after any reasoning that a server left in it."""
    # From the last end on: reasoning may quote the tag.
    for end in _REASONED:
        text = text.rpartition(end)[2]
    return text
