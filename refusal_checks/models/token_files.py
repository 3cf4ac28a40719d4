"""The special tokens that a model's own files declare."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.special_tokens import FAMILIES, SpecialTokens
from refusal_checks.models.model_files import _cached, _options, _read_object
from refusal_checks.models.names import Model, Served, expanded

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


_MARKER = re.compile(
    r"</?[^<>\s{}%|]{1,60}>|\[/?[A-Za-z_]{2,60}\]|#{2,4} ?[A-Z][\w ]{1,30}:"
)
"""Text of a chat template that marks turns without being a token of its tokenizer."""


_TAGS = re.compile(r"\{([#%]).*?(?:\1\}|(\Z))", re.DOTALL)
"""A comment or a statement, or a beginning that nothing ends."""


_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*+)'?|\"((?:[^\"\\\n]|\\.)*+)\"?")
"""A string constant, or the rest of a line after a quotation mark."""


RETRY = 5.0
"""Seconds after which files are looked for again that were not there: an engine downloads them."""


def special_tokens(model: Model) -> SpecialTokens:
    """The special tokens of a model: those of its files, if there are any, and all known ones.

    The files are an engine's model's, those of another tokenizer or template, and of adapters.
    """
    if not isinstance(model, Served):
        return FAMILIES
    options = _options(model)
    adapters = (arg.partition("=")[2] for arg in model.args if not arg.startswith("-"))
    others = (options.get("--tokenizer"), options.get("--chat-template"), *adapters)
    places = (model.path, *filter(None, others))
    cache = options.get("--download-dir")
    revision = options.get("--tokenizer-revision") or options.get("--revision")
    found, after = frozenset[str](), 0.0

    def of_files() -> frozenset[str]:
        nonlocal found, after
        if not found and time.monotonic() >= after:
            files = (
                file for place in places for file in _files(place, cache, revision)
            )
            found = frozenset[str]().union(*map(_of_file, files))
            after = time.monotonic() + RETRY
        return found

    return SpecialTokens(of_files)


def _files(place: str, cache: str | None, revision: str | None) -> Iterator[Path]:
    """The files of a folder or a Hugging Face id, or the file itself."""
    with suppress(
        OSError, RuntimeError, ValueError
    ):  # no name of a file: a template, perhaps
        path = Path(place).expanduser()
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from filter(Path.is_file, (path / name for name in _NAMES))
        else:
            yield from filter(
                None, (_cached(place, name, cache, revision) for name in _NAMES)
            )


@cache
def _of_file(path: Path) -> frozenset[str]:
    """The tokens that a file declares; none if it cannot be read, which its engine will say."""
    try:
        if path.stat().st_size > 256 * 2**20:  # the largest tokenizers known have 40 MB
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
    """Tokens in any of the files' forms: bare, as objects, in lists, and in chat templates."""
    if not isinstance(content, dict):
        return
    entries = [value for key, value in content.items() if key.endswith("_token")]
    for key in ("added_tokens", "special_tokens", "additional_special_tokens"):
        entries += content[key] if isinstance(content.get(key), list) else []
    decoder = content.get("added_tokens_decoder")
    entries += decoder.values() if isinstance(decoder, dict) else []
    for entry in entries:
        is_object = isinstance(entry, Mapping)
        token = entry.get("content", entry.get("token_str")) if is_object else entry
        if isinstance(token, str):
            yield token
    templates = content.get("chat_template")
    for one in templates if isinstance(templates, list) else [templates]:
        source = one.get("template") if isinstance(one, Mapping) else one
        yield from _of_template(source) if isinstance(source, str) else ()


def _of_template(source: str) -> Iterator[str]:
    """The markers of turns in a template's text and in its string constants."""
    for quoted in _TEXT.finditer(source):
        yield from _MARKER.findall(quoted[1] or quoted[2] or "")
    text = _TAGS.sub(lambda tag: " " if tag[2] is None else tag[0], source)
    yield from _MARKER.findall(text)


class TokenizerFiles(NamedTuple):
    """Whether a model's tokenizer is here, and comes with a chat template."""

    are_there: bool
    have_template: bool


def tokenizer_files(model: Served) -> TokenizerFiles:
    """What is here of a model's tokenizer, in its folder or in the local cache."""
    options = _options(model)
    cache, revision = options.get("--download-dir"), options.get("--revision")
    files = {
        path.name: path for path in _files(str(expanded(model.path)), cache, revision)
    }
    about = _read_object(files.get("tokenizer_config.json"))
    processor = _read_object(expanded(model.path) / "processor_config.json")
    have_template = bool(
        about.get("chat_template")
        or processor.get("chat_template")
        # Mistral's tokenizers need none.
        or files.keys() & {"chat_template.json", "chat_template.jinja", "tekken.json"}
        or (expanded(model.path) / "additional_chat_templates").is_dir()
    )
    return TokenizerFiles(bool(about), have_template)
