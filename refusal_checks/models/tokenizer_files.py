"""The special tokens that a model's own files declare: its tokenizer's, and its chat template's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from refusal_checks.core.special_tokens import FAMILIES, SpecialTokens
from refusal_checks.models.identity import Model
from refusal_checks.models.spec import Served

_NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tekken.json",
    "chat_template.json",
    "chat_template.jinja",
)
"""The files that declare tokens, in the forms of Hugging Face and Mistral."""

_BIG = 256 * 2**20
"""Bytes above which a file is not read; the largest tokenizers known have 40 MB."""

_MARKER = re.compile(r"</?[^<>\s{}%|]{1,60}>|\[/?[A-Za-z_]{2,60}\]|#{2,4} ?[A-Z][\w ]{1,30}:")
"""Text of a chat template that marks turns without being a token of its tokenizer."""

_TAGS = re.compile(r"\{([#%]).*?(?:\1\}|(\Z))", re.DOTALL)
"""A comment or a statement, or a beginning that nothing ends."""

_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*+)'?|\"((?:[^\"\\\n]|\\.)*+)\"?")
"""A string constant, or the rest of a line after a quotation mark."""


RETRY = 5.0
"""Seconds after which files are looked for again that were not there: an engine downloads them."""


def special_tokens(model: Model) -> SpecialTokens:
    """The special tokens of a model: those of its files, where there are any, and all known ones.

    The files of a Hugging Face id are read from the local cache.
    """
    return SpecialTokens(_Declared(model)) if isinstance(model, Served) else FAMILIES


class _Declared:
    """Reads the tokens of an engine's model, of another tokenizer or template, and of adapters."""

    def __init__(self, model: Served) -> None:
        args = [part for arg in model.args for part in arg.split("=", 1)]
        options = dict(pairwise(args))
        adapters = (arg.partition("=")[2] for arg in model.args if not arg.startswith("-"))
        others = (options.get("--tokenizer"), options.get("--chat-template"), *adapters)
        self._places = (model.path, *filter(None, others))
        self._cache = options.get("--download-dir")
        self._revision = options.get("--tokenizer-revision") or options.get("--revision")
        self._found = frozenset[str]()
        self._next = 0.0

    def __call__(self) -> frozenset[str]:
        if not self._found and time.monotonic() >= self._next:
            files = (file for place in self._places for file in self._files(place))
            self._found = frozenset[str]().union(*map(_of_file, files))
            self._next = time.monotonic() + RETRY
        return self._found

    def _files(self, place: str) -> Iterator[Path]:
        """The files of a folder or a Hugging Face id, or the file itself."""
        try:
            path = Path(place).expanduser()
            if path.is_file():
                yield path
            elif path.is_dir():
                yield from filter(Path.is_file, (path / name for name in _NAMES))
            else:
                yield from filter(None, (self._cached(place, name) for name in _NAMES))
        except (OSError, RuntimeError, ValueError):  # no name of a file, such as a template itself
            return

    def _cached(self, model: str, name: str) -> Path | None:
        from huggingface_hub import try_to_load_from_cache  # not before it is needed: it loads HTTP

        found = try_to_load_from_cache(model, name, self._cache, self._revision)
        return Path(found) if isinstance(found, str) else None


@cache
def _of_file(path: Path) -> frozenset[str]:
    """The tokens that a file declares; none if it cannot be read, which its engine will say."""
    try:
        if path.stat().st_size > _BIG:
            return frozenset()
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return frozenset(_of_template(text))
        content = json.loads(text)
        is_map = path.name == "added_tokens.json" and isinstance(content, dict)
        return frozenset(content if is_map else _of_json(content))
    except (OSError, ValueError, RecursionError):
        return frozenset()


def _of_json(content: Any) -> Iterator[str]:
    """Tokens in any of the files' forms."""
    if not isinstance(content, dict):
        return
    yield from _texts([value for key, value in content.items() if key.endswith("_token")])
    for key in ("added_tokens", "special_tokens", "additional_special_tokens"):
        yield from _texts(content.get(key))
    decoder = content.get("added_tokens_decoder")
    yield from _texts(list(decoder.values()) if isinstance(decoder, dict) else None)
    templates = content.get("chat_template")
    for one in templates if isinstance(templates, list) else [templates]:
        source = one.get("template") if isinstance(one, Mapping) else one
        yield from _of_template(source) if isinstance(source, str) else ()


def _texts(entries: Any) -> Iterator[str]:
    """The texts of tokens, which are given bare or as objects."""
    for entry in entries if isinstance(entries, list) else ():
        token = entry
        if isinstance(entry, Mapping):
            token = entry.get("content", entry.get("token_str"))
        if isinstance(token, str):
            yield token


def _of_template(source: str) -> Iterator[str]:
    """The markers of turns in a template's text and in its string constants."""
    for quoted in _TEXT.finditer(source):
        yield from _MARKER.findall(quoted[1] or quoted[2] or "")
    text = _TAGS.sub(lambda tag: " " if tag[2] is None else tag[0], source)
    yield from _MARKER.findall(text)
