"""Judges that are asked for one structured verdict, which is read strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from refusal_checks.core.errors import ModelError
from refusal_checks.core.keys import content_key
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Binary, Graded, Invalid, Reason
from refusal_checks.judges import template
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.template import JudgePrompt, left_out

Verdict = TypeVar("Verdict", Binary, Graded)
Fields = TypeVar("Fields", bound=BaseModel)


@dataclass(frozen=True)
class Reading(Generic[Verdict]):
    """How one kind of judge's output is read.

    Attributes:
        formats: for each format that a template may declare, the parser and, where the output has
            one, its JSON schema with the fields in the order in which they are written.
        version: raised when a parser changes; part of the judge's identity.
    """

    formats: Mapping[str, tuple[Callable[[str], Verdict | Invalid], Mapping[str, Any] | None]]
    version: int


class StructuredJudge(Generic[Verdict]):
    """Asks a model for a verdict in its prompt's format and reads it strictly.

    Args:
        prompt: its format is one of the reading's.
    """

    def __init__(self, setup: JudgeSetup, prompt: JudgePrompt, reading: Reading[Verdict]) -> None:
        from refusal_checks.judges import asking  # HTTP, which collection need not import

        parse, schema = reading.formats[prompt.format]
        versions = (reading.version, asking.VERSION)
        self.name = setup.name
        self.prompt_hash = prompt.sha256
        self.identity = content_key(
            setup.model_identity, prompt.sha256, versions, schema, setup.sampling.model_dump()
        )
        self._prompt = prompt
        self._limit = setup.sampling.max_answer_chars
        self._asker: asking.Asker[Verdict] = asking.Asker(
            setup.client, setup.sampling, parse, schema, setup.note
        )

    async def judge(self, prompt: Prompt, completion: Completion) -> Verdict | Invalid:
        """See ``Judge.judge``."""
        messages = self._prompt.messages(prompt, completion.text, self._limit)
        found = await self._asker.ask(messages)
        if isinstance(found, Invalid):
            return found
        return replace(found, cut=left_out(completion.text, self._limit))


def build(
    setup: JudgeSetup | None, prompt: str, demo: str, reading: Reading[Verdict]
) -> StructuredJudge[Verdict]:
    """A judge of one kind.

    Args:
        prompt, demo: see ``JudgeSetup.prompt``.

    Raises:
        ModelError: there is no model, or the prompt cannot be used.
    """
    if setup is None:
        raise ModelError("this benchmark needs a judge that is a model")
    found = template.load(setup.prompt(prompt, demo), tuple(reading.formats))
    return StructuredJudge(setup, found, reading)


def last_verdict(text: str, form: type[Fields]) -> Fields | Invalid:
    """The last structured verdict in a judge's output; words around it decide nothing.

    A piece of another verdict beside it (a cut-off object, one with other fields, one that quotes
    the answer without escapes) makes the output unreadable: which is the judge's own cannot be
    told.

    Args:
        form: the fields of a verdict; an object with others is none.

    Returns:
        The verdict, or Invalid where the text holds no JSON object with just these fields, or
        pieces of another.
    """
    verdict, rest, end = None, "", 0
    for found, start, stop in _json_objects(text):
        try:
            verdict = form.model_validate(found)
        except ValidationError:
            continue
        rest, end = rest + text[end:start], stop
    piece = rf'"(?:{"|".join(form.model_fields)})"\s*:'
    if verdict is None or re.search(piece, rest + text[end:]):
        return Invalid(Reason.UNPARSABLE_VERDICT, storable(text[:200]))
    return verdict


def _json_objects(text: str) -> Iterator[tuple[Any, int, int]]:
    """The outermost JSON objects in a text with their spans; what lies inside is passed over."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    start = text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
            yield found, start, end
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)


def _unique(pairs: list[tuple[str, Any]]) -> Any:
    """An object with each key once; one with a key twice says two things, and is left as pairs."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else pairs
