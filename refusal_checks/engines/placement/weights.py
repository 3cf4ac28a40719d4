"""How large a model is: the files that its weights are in, here or on the Hugging Face hub."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

_FILES = ("model*.safetensors", "*.safetensors", "*.bin", "*.gguf", "*.pt")
"""Names of weight files, best first: some folders hold the same weights in several formats."""

PATIENCE = 10.0
"""Seconds that the hub may take to list a model's files."""


def gib(model: str, revision: str | None = None, cache: str | None = None) -> float | None:
    """GiB of weights of a folder, or of a Hugging Face id: in the local cache, else on the hub.

    Args:
        cache: folder of the cache, if not the usual one.

    Returns:
        None if the weights, or a part of them, are not here, and the hub does not list them.
    """
    if Path(model).is_dir():
        size = _size(Path(model))
    else:
        folder = _cached(model, revision, cache)
        size = (folder and _size(folder)) or _on_hub(model, revision)
    return size / 2**30 if size else None


def _size(folder: Path) -> int:
    """Bytes, as an index of several files declares, else of the files themselves."""
    for index in folder.glob("*.safetensors.index.json"):
        try:
            return int(json.loads(index.read_bytes())["metadata"]["total_size"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return _of_one_format({p.name: p.stat().st_size for p in folder.iterdir() if p.is_file()})


def _of_one_format(sizes: Mapping[str, int]) -> int:
    """Bytes of the weight files among those of a folder."""
    for pattern in _FILES:
        if found := [size for name, size in sizes.items() if fnmatchcase(name, pattern)]:
            return sum(found)
    return 0


def _cached(model: str, revision: str | None, cache: str | None) -> Path | None:
    """The folder in the hub's cache; some of the model's files may be missing there."""
    from huggingface_hub import try_to_load_from_cache  # not before it is needed: it loads HTTP
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model, "config.json", cache_dir=cache, revision=revision)
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


@functools.cache
def _on_hub(model: str, revision: str | None) -> int:
    """Bytes as the hub lists them; 0 if it cannot be asked or has no such model."""
    from huggingface_hub import HfApi

    if model.count("/") != 1:
        return 0
    try:
        info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=PATIENCE)
    except Exception:  # its HTTP library has its own; the engine itself reports it best
        return 0
    files = {file.rfilename: file.size or 0 for file in info.siblings or []}
    return _of_one_format({name: size for name, size in files.items() if "/" not in name})
