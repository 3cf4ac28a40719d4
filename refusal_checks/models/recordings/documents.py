"""A file of recorded answers before its format is known, and rows that are read one at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import read_json, rows_in

Row = dict[str, Any]
"""A prompt and its answers, by column: ``prompt``, ``completion`` (a text, None, or a list of
these), perhaps ``label``, and whatever else the file says."""


@dataclass(frozen=True)
class Rows:
    """Rows that are read from their file each time one goes through them, one at a time."""

    read: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())


@dataclass(frozen=True)
class Document:
    """A file, read once for all formats.

    Attributes:
        may_be_partial: if so, a log that was not finished is read as far as it goes.
    """

    path: Path
    may_be_partial: bool = False

    @cached_property
    def value(self) -> Any:
        """The content of a ``.json`` file, the first row of a table; None of an archive."""
        if self.path.suffix == ".json":
            return read_json(self.path)
        if self.path.suffix == ".eval":
            return None
        return next(rows_in(self.path))
