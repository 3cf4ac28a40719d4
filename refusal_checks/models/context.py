"""A model's context: the tokens of prompt and answer together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from refusal_checks.models.client.usage import MALFORMED
from refusal_checks.models.spec import Served, expanded

LEAST = 128
"""Fewest tokens that an answer gets; where the context leaves fewer the prompt is too long."""

_LISTED = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "context_length",  # OpenRouter, Together
    "n_ctx",  # llama.cpp, in "meta"
)
"""Names under which servers' lists of models give a context."""

_MOST = re.compile(
    r"(?:max_model_len ?= ?|context (?:length|size|window)\D{0,12}|at most |must be <= |> ?|"
    r"less than or equal to `?|range of max_tokens is \[1, ?)(\d{1,9})",
    re.IGNORECASE,
)
"""The most that a server's refusal allows: of an answer, or of prompt and answer together."""

_PROMPT = re.compile(
    r"(\d{1,9}) (?:input tokens|in the messages|tokens from the input|`inputs` tokens)"
)

_ANSWER = re.compile(r"max_(?:\w+_)?tokens|output tokens|completion", re.IGNORECASE)
"""A refusal that speaks of the answer's limit, which a smaller one may satisfy."""


def listed(model: Mapping[str, Any]) -> int | None:
    """The context that a server's list gives for a model; None if it gives none."""
    meta = model.get("meta")
    for place in (model, meta if isinstance(meta, Mapping) else {}):
        for name in _LISTED:
            value = place.get(name)
            if type(value) is int and value >= LEAST:
                return value
    return None


def most_allowed(refusal: str) -> int | None:
    """The most tokens that a server's refusal allows, of an answer or in all; None if unclear."""
    counts = [int(found[1]) for found in _MOST.finditer(refusal)]
    return min(counts) if counts else None


def next_limit(refusal: str, refused: int) -> int | None:
    """The limit on an answer's tokens to ask for after a refusal, less than the refused one.

    Args:
        refusal: the server's words.

    Returns:
        What the words leave for the answer, else half of the refused limit; None if the prompt
        alone is too long.
    """
    most, prompt = most_allowed(refusal), _PROMPT.search(refusal)
    if most and prompt:
        left = most - int(prompt[1])
    elif most and most < refused:
        left = most
    else:
        left = refused // 2 if most is None or _ANSWER.search(refusal) else 0
    left = min(left, refused - 1)
    return left if left >= LEAST else None


def declared(model: Served) -> int | None:
    """The context of a model that an engine serves, by its arguments, else by its configuration.

    None where neither is clear: the file is not here yet, or positions are stretched.
    """
    options = dict(pairwise(part for arg in model.args for part in arg.split("=", 1)))
    given = options.get("--max-model-len") or options.get("--max_model_len") or ""
    if given and given not in ("auto", "-1"):
        return int(given) if given.isdecimal() and len(given) < 10 else None
    with suppress(*MALFORMED, OSError):
        config = json.loads(_config(model, options).read_text(encoding="utf-8"))
        text = config.get("text_config", config)
        if not (text.get("rope_scaling") or text.get("rope_parameters", {}).get("factor")):
            found = text["max_position_embeddings"]
            return found if type(found) is int and found >= LEAST else None
    return None


def _config(model: Served, options: Mapping[str, str]) -> Path:
    """A model's configuration, which need not exist; of a Hugging Face id that in the cache."""
    folder = expanded(model.path)
    if folder.is_dir():
        return folder / "config.json"
    from huggingface_hub import try_to_load_from_cache  # loads HTTP

    revision, cache = options.get("--revision"), options.get("--download-dir")
    found = try_to_load_from_cache(model.path, "config.json", cache, revision)
    return Path(found) if isinstance(found, str) else folder / "config.json"
