"""An answer without each of its sentences in turn."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST = 12
"""Most sentences that are left out: as many from the beginning of the answer as from its end."""

_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)"  # where words are divided by spaces
    r"|[。！？；｡][”’」』）]*+"  # where they are not
    r"|\n++"
)

Parts = Sequence[str]
"""What is shown of an answer: all of it, or its beginning and its end."""


def without_each(parts: Parts) -> list[tuple[str, Parts]]:
    """Each sentence, with the parts as they are without it; none if there is only one.

    An answer of more than ``MOST`` sentences is looked at where it begins and where it ends.
    """
    found = [(number, *span) for number, part in enumerate(parts) for span in _spans(part)]
    if len(found) > MOST:
        found = [*found[: MOST // 2], *found[-MOST // 2 :]]
    if len(found) < 2:
        return []
    return [
        (parts[number][start:end].strip(), _without(parts, number, start, end))
        for number, start, end in found
    ]


def _spans(text: str) -> list[tuple[int, int]]:
    """The beginning and the end of each sentence with words in it; they follow each other."""
    ends = [*(match.end() for match in _END.finditer(text)), len(text)]
    spans = zip([0, *ends], ends, strict=False)
    return [(start, end) for start, end in spans if re.search(r"\w", text[start:end])]


def _without(parts: Parts, number: int, start: int, end: int) -> Parts:
    part = parts[number]
    return [*parts[:number], f"{part[:start]}{part[end:]}".strip(), *parts[number + 1 :]]
