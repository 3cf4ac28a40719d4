"""Find the size of a model's weights from its files or the hub."""

import fnmatch
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from refusal_checks.models.model_files import find_cached

_WEIGHTS = (
    "model.safetensors",
    "model*.safetensors",
    "*.safetensors",
    "pytorch_model*.bin",
    "*.bin",
    "*.gguf",
    "*.pt",
)
"""Names of weight files, best first: some folders hold the same weights in several formats."""

PATIENCE = 10.0  # seconds that the hub may take to list a model's files


def weights_gib(
    model: str, revision: str | None = None, cache: str | None = None
) -> float | None:
    """GiB of weights in a folder, or of a Hugging Face id: in the local cache, else on the hub.

    None if weights are missing on this machine and the hub does not list them.
    """
    if Path(model).is_dir():
        size = _folder_bytes(Path(model))
    else:
        config = find_cached(model, "config.json", cache, revision)
        size = (config and _folder_bytes(config.parent)) or _hub_bytes(model, revision)
    return size / 2**30 if size else None


def _folder_bytes(folder: Path) -> int:
    files = filter(Path.is_file, folder.iterdir())
    return _format_bytes({file.name: file.stat().st_size for file in files})


def _format_bytes(sizes: Mapping[str, int]) -> int:
    """Bytes of the weight files in the best format present."""
    for pattern in _WEIGHTS:
        names = fnmatch.filter(sizes, pattern)
        if names:
            return sum(sizes[name] for name in names)
    return 0


@cache
def _hub_bytes(model: str, revision: str | None) -> int:
    """Bytes as listed by the hub; 0 if it cannot be reached or has no such model."""
    from huggingface_hub import HfApi

    if model.count("/") != 1:
        return 0
    try:
        info = HfApi().model_info(
            model, revision=revision, files_metadata=True, timeout=PATIENCE
        )
    except Exception:  # its HTTP library has its own; the engine itself reports it best
        return 0
    files = [file for file in info.siblings or [] if "/" not in file.rfilename]
    return _format_bytes({file.rfilename: file.size or 0 for file in files})
