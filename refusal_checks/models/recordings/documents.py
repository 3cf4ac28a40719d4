"""Files of recorded answers whose format is not known yet, and rows read one at a time."""

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
    """Rows of a file; each iteration reads them from the file again, one at a time."""

    read: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())


@dataclass(frozen=True)
class Document:
    """A file, read once for all formats.

    Attributes:
        may_be_partial: True to read an unfinished log as far as it goes.
    """

    path: Path
    may_be_partial: bool = False

    @cached_property
    def value(self) -> Any:
        """The content of a ``.json`` file, or the first row of a table; None for an archive."""
        if self.path.suffix == ".json":
            return read_json(self.path)
        if self.path.suffix == ".eval":
            return None
        return next(rows_in(self.path))
