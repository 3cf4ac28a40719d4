"""How large a model is: the files that its weights are in, where they are here already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_FILES = ("model*.safetensors", "*.safetensors", "*.bin", "*.gguf", "*.pt")
"""Names of weight files, best first: some folders hold the same weights in several formats."""


def gib(model: str, args: Sequence[str] = ()) -> float | None:
    """GiB of weights of a folder, or of a Hugging Face id in the local cache.

    Args:
        args: vLLM's, of which ``--revision`` and ``--download-dir`` say where to look.

    Returns:
        None where the weights, or a part of them, are not here.
    """
    folder = Path(model) if Path(model).is_dir() else _cached(model, args)
    size = folder and _size(folder)
    return size / 2**30 if size else None


def _size(folder: Path) -> int:
    """Bytes; what an index of several files declares goes before what is there of them."""
    for index in folder.glob("*.safetensors.index.json"):
        try:
            return int(json.loads(index.read_bytes())["metadata"]["total_size"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    for pattern in _FILES:
        if found := [path for path in folder.glob(pattern) if path.is_file()]:
            return sum(path.stat().st_size for path in found)
    return 0


def _cached(model: str, args: Sequence[str]) -> Path | None:
    from huggingface_hub import snapshot_download  # not before it is needed: it loads HTTP
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    words = [word for arg in args for word in arg.split("=", 1)]
    given = dict(pairwise(words))
    try:
        return Path(
            snapshot_download(
                model,
                revision=given.get("--revision"),
                cache_dir=given.get("--download-dir"),
                local_files_only=True,
            )
        )
    except (LocalEntryNotFoundError, HFValidationError, OSError):
        return None
