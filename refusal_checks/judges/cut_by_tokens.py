"""Texts cut to a number of a model's tokens."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE = 10_000
"""Characters of a text's beginning and of its end that are divided into tokens: more than any 300
tokens have. The rest of a longer text is not looked at."""


@dataclass(frozen=True)
class TokenCutter:
    """Cuts texts by the tokenizer of a model.

    Attributes:
        file: ``tokenizer.json`` of the model, read when it is first needed.
    """

    file: Path

    @classmethod
    def of(cls, folder: Path | None, judge: str) -> TokenCutter:
        """The cutter for the model in a folder.

        Raises:
            ModelError: the library or the folder is missing; the message names ``judge``.
        """
        if folder is None or importlib.util.find_spec("tokenizers") is None:
            raise ModelError(f"--judge {judge}: pip install tokenizers: it counts tokens with it")
        return cls(folder / "tokenizer.json")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.file))

    def end(self, text: str, most: int) -> str:
        """The text, or its last tokens if it has more than ``most``."""
        tokens = self._tokens(text[-PIECE:])
        return text if len(text) <= PIECE and len(tokens) <= most else self._text(tokens[-most:])

    def ends(self, text: str, head: int, tail: int) -> tuple[str, ...]:
        """The text; its beginning and its end if it has more than ``head + tail`` tokens."""
        first = last = self._tokens(text[:PIECE])
        if len(text) > PIECE:
            last = self._tokens(text[-PIECE:])
        elif len(first) <= head + tail:
            return (text,)
        return self._text(first[:head]), self._text(last[-tail:])

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _text(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=False)
