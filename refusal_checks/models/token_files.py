"""Read the special tokens that a model's own files declare."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.files import read_once
from refusal_checks.core.special_tokens import FAMILIES, SpecialTokens
from refusal_checks.models.model_files import _cached, _read_object, argument_values
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
    r"</?[^<>\s{}%|]{1,60}>|</?[A-Z][A-Z _-]{1,60}>|\[/?[A-Za-z_]{2,60}\]|#{2,4} ?[A-Z][\w ]{1,30}:"
)
"""Text of a chat template that marks turns without being a token of its tokenizer."""


_TAGS = re.compile(r"\{([#%]).*?(?:\1\}|(\Z))", re.DOTALL)
"""A comment or a statement, or a beginning that nothing ends."""


_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*+)'?|\"((?:[^\"\\\n]|\\.)*+)\"?")
"""A string constant, or the rest of a line after a quotation mark."""


RETRY = 5.0
"""Seconds before missing files are looked for again: an engine may have downloaded them."""


def special_tokens(model: Model) -> SpecialTokens:
    """The special tokens of a model: those in its files, if any, and all known ones.

    The files are those of the engine's model, of a separate tokenizer or template, and of adapters.
    """
    if not isinstance(model, Served):
        return FAMILIES
    options = argument_values(model)
    places = [model.path]
    for name in ("--tokenizer", "--chat-template"):
        if options.get(name):
            places.append(options[name])
    for argument in model.args:
        # An adapter: NAME=FOLDER.
        _, is_pair, folder = argument.partition("=")
        if is_pair and folder and not argument.startswith("-"):
            places.append(folder)
    cache = options.get("--download-dir")
    revision = options.get("--tokenizer-revision") or options.get("--revision")
    tokens, next_look = frozenset[str](), 0.0

    def of_files() -> frozenset[str]:
        nonlocal tokens, next_look
        if not tokens and time.monotonic() >= next_look:
            declared: set[str] = set()
            for place in places:
                for file in _files(place, cache, revision):
                    declared |= _of_file(file)
            tokens = frozenset(declared)
            next_look = time.monotonic() + RETRY
        return tokens

    return SpecialTokens(of_files)


def _files(place: str, cache: str | None, revision: str | None) -> Iterator[Path]:
    """The files of a folder or Hugging Face id, or the file itself."""
    # A template in place of a path may be no name of a file.
    with suppress(OSError, RuntimeError, ValueError):
        path = Path(place).expanduser()
        if path.is_file():
            yield path
            return
        is_folder = path.is_dir()
        for name in _NAMES:
            file = path / name if is_folder else _cached(place, name, cache, revision)
            if file is not None and file.is_file():
                yield file


@read_once
def _of_file(path: Path) -> frozenset[str]:
    """The tokens that a file declares; none if it cannot be read (its engine will say so)."""
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
    """Collect tokens in any of the files' forms: strings, objects, lists, and chat templates."""
    if not isinstance(content, dict):
        return
    entries = [value for key, value in content.items() if key.endswith("_token")]
    for key in ("added_tokens", "special_tokens", "additional_special_tokens"):
        if isinstance(content.get(key), list):
            entries += content[key]
    if isinstance(content.get("added_tokens_decoder"), dict):
        entries += content["added_tokens_decoder"].values()
    for entry in entries:
        token = entry
        if isinstance(entry, Mapping):
            token = entry.get("content", entry.get("token_str"))
        if isinstance(token, str):
            yield token

    templates = content.get("chat_template")
    if not isinstance(templates, list):
        templates = [templates]
    for template in templates:
        source = template
        if isinstance(template, Mapping):
            source = template.get("template")
        if isinstance(source, str):
            yield from _of_template(source)


def _of_template(source: str) -> Iterator[str]:
    """Collect turn markers from a template's text and its string constants."""
    for quoted in _TEXT.finditer(source):
        yield from _MARKER.findall(quoted[1] or quoted[2] or "")
    text = _TAGS.sub(lambda tag: " " if tag[2] is None else tag[0], source)
    yield from _MARKER.findall(text)


class TokenizerFiles(NamedTuple):
    """Whether a model's tokenizer is on this machine, and has a chat template."""

    are_there: bool
    have_template: bool


def tokenizer_files(model: Served) -> TokenizerFiles:
    """Look for a model's tokenizer in its folder or in the local cache."""
    options = argument_values(model)
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
