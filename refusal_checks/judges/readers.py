"""Read a judge's output in the form that the head of its prompt declares.

All of an output must have that form: text before or after a verdict may be another verdict. White
space, an end-of-text token and reasoning before it are tolerated, and around a label bold type and
a full stop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from refusal_checks.core.errors import ModelError
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.judges.parsing import (
    MOST_CHARACTERS,
    unreadable,
    without_ends,
    without_reasoning,
)
from refusal_checks.judges.prompt_head import NO_LABEL, Head, Meaning

MOST_RATIONALE = 500
"""Characters of a rationale that are kept, from its end."""

_LABEL = re.compile(r"(?:\*\*)?(.{1,200}?)(?:\*\*)?\.?", re.DOTALL)

_SPACES = re.compile(r"[ \t\r\n]+")

_CATEGORY, _RATIONALE = "category", "rationale"


class Statement(NamedTuple):
    """What an output says.

    Attributes:
        meaning: of the label, or of the group of what is measured.
        category: empty if the output names none.
    """

    meaning: Meaning
    category: str
    rationale: str


Verdict = Callable[[Statement], Judgement]
"""Makes the verdict of a way of judging."""


def reader(head: Head, where: str, verdict: Verdict) -> Callable[[str], Judgement]:
    """The function that reads outputs as ``head`` says; ``where`` names the prompt."""
    if head.reads == "label":
        return lambda text: _read(text, _by_label(head, text), verdict)
    patterns = [compiled(head, pattern, where) for pattern in head.pattern]
    _require_groups(head, patterns, where)
    return lambda text: _read(text, _by_pattern(head, patterns, text), verdict)


def _read(text: str, statement: Statement | None, verdict: Verdict) -> Judgement:
    if statement is None:
        return unreadable(text)
    if statement.meaning == NO_LABEL:
        return Invalid(Reason.NO_LABEL, statement.rationale)
    return verdict(statement)


def _by_label(head: Head, text: str) -> Statement | None:
    label = _LABEL.fullmatch(without_ends(without_reasoning(text)))
    if label is None:
        return None
    meaning = meaning_of(label[1], head.labels)
    if meaning is None:
        return None
    return Statement(meaning, "", f"says {label[1]}")


def _by_pattern(head: Head, patterns: Sequence[Any], text: str) -> Statement | None:
    # The engine takes UTF-8, which a lone surrogate has not.
    if len(text) > MOST_CHARACTERS or storable(text) != text:
        return None
    output = without_ends(without_reasoning(text))
    groups = _groups(patterns, output)
    measured = groups.get(head.measures)
    if measured is None:
        return None
    meaning = _meaning(head, measured)
    if meaning is None:
        return None
    rationale = groups.get(_RATIONALE)
    if rationale is None:
        rationale = "; ".join(
            line.strip() for line in output.splitlines() if line.strip()
        )
    category = groups.get(_CATEGORY) or ""
    shown = storable(rationale.strip()[-MOST_RATIONALE:])
    return Statement(meaning, storable(category[:200]), shown)


def _groups(patterns: Sequence[Any], output: str) -> Mapping[str, str | None]:
    """The groups of the first pattern that matches all of an output; empty if none does."""
    for pattern in patterns:
        match = pattern.fullmatch(output)
        if match:
            return {name: match.group(name) for name in pattern.groupindex}
    return {}


def _meaning(head: Head, measured: str) -> Meaning | None:
    values = head.values.get(head.measures)
    if values:
        return meaning_of(measured, values)
    try:
        return head.number(float(measured))
    except ValueError:
        return None


def meaning_of(text: str, meanings: Mapping[str, Meaning]) -> Meaning | None:
    """The meaning of a label, in any letter case; None if it is none of these."""
    text = _SPACES.sub(" ", text)
    if text in meanings:
        return meanings[text]
    # Some letters of other alphabets become ASCII in lower case.
    if not text.isascii():
        return None
    for label, meaning in meanings.items():
        if label.lower() == text.lower():
            return meaning
    return None


@cache
def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def compiled(head: Head, text: str, where: str) -> Any:
    """A regular expression, in an engine that takes linear time for any output.

    Raises ModelError for one that needs backtracking, or whose groups do not suit.
    """
    import re2

    try:
        pattern = _compile(text)
    except re2.error as fault:
        words = fault.args[0] if fault.args else ""
        if isinstance(words, bytes):
            words = words.decode(errors="replace")
        raise ModelError(
            f"{where}: write pattern in the syntax of RE2 (no look-around, no back-references, no "
            f"possessive repetition), which reads any output in linear time: {words}"
        ) from None
    names = set(pattern.groupindex)
    if pattern.groups != len(names):
        raise ModelError(
            f"{where}: in pattern, write (?:...) for a group without a name, and each name once"
        )
    if head.measures not in names:
        raise ModelError(
            f"{where}: write (?P<{head.measures}>...) in pattern around what says so: the judge "
            f"measures {head.measures}"
        )
    if pattern.fullmatch(""):
        raise ModelError(
            f"{where}: write a pattern that no empty output matches: {text} matches one, which is "
            "no verdict"
        )
    return pattern


def _require_groups(head: Head, patterns: Sequence[Any], where: str) -> None:
    names = {name for pattern in patterns for name in pattern.groupindex}
    for group in head.values:
        if group not in names:
            raise ModelError(
                f"{where}: leave out values.{group}, or write (?P<{group}>...) in pattern"
            )
