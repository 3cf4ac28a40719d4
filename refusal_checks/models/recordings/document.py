"""A file whose format is still to be found out."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.json_text import parse

Row = dict[str, Any]
"""A prompt and its answers, by column: ``prompt``, ``completion`` (a text, None, or a list of
these), perhaps ``label``, and whatever else the file says."""

NEVER_ASKED = "never asked"
"""The column, which no file has, of rows whose answer is missing because nothing was sent."""

PROMPTS = (
    "prompt", "question", "instruction", "request", "query", "goal", "behavior", "Behavior",
    "input", "text",
)  # fmt: skip
"""Names under which tools keep the prompt that a benchmark sent, the most telling first."""


@dataclass(frozen=True)
class Document:
    """A file, read once for all formats."""

    path: Path

    @cached_property
    def value(self) -> Any:
        """The content of a ``.json`` file, the first row of any other text; None if it has none.

        Raises:
            DataError: the file cannot be read, or is a JSON file that is not valid.
        """
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                if self.path.suffix == ".json":
                    return parse(file.read())
                if self.path.suffix in (".jsonl", ".ndjson"):
                    return parse(next((line for line in file if line.strip()), "null"))
                return next(csv.DictReader(file), None)
        except OSError as fault:
            raise DataError(f"{self.path}: cannot be read: {fault.strerror}") from None
        except (ValueError, csv.Error) as fault:
            if self.path.suffix == ".json":
                raise DataError(f"{self.path}: not valid JSON: {fault}") from None
            return None

    def list_of(self, *names: str) -> list[Any] | None:
        """The list at the end of nested objects' names; None if there is none."""
        value = self.value
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, list) else None


def prompt_in(values: Any) -> str | None:
    """The prompt among a tool's variables or columns, by its usual names; None if unclear."""
    if isinstance(values, str):
        return values
    if not isinstance(values, Mapping):
        return None
    named = (values.get(name) for name in PROMPTS)
    texts = [value for value in values.values() if isinstance(value, str)]
    found = next((value for value in named if isinstance(value, str)), None)
    return found if found is not None or len(texts) != 1 else texts[0]


def words(content: Any) -> str | None:
    """The text of a message's content: a text, or a list of parts of which the texts count."""
    if isinstance(content, str) or content is None:
        return content
    parts = content if isinstance(content, list) else [content]
    found = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    return "\n".join(str(part.get("text") or "") for part in found) or None
