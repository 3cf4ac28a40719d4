"""Rows of recorded answers, read one at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
"""A prompt and its answers, by column: ``prompt``, ``completion`` (a text, None, or a list of
these), perhaps ``label``, and whatever else the file says."""


@dataclass(frozen=True)
class Rows:
    """Rows of a file; each iteration reads them from the file again, one at a time."""

    read: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())
