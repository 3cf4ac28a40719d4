"""What a model's stored answers depend on: its version, arguments and template variables."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from refusal_checks.core.files import sha256
from refusal_checks.core.store import content_key
from refusal_checks.models.names import Attached, Model, Replay, Rule

_SMALL = 64 * 2**20
"""Most bytes of a file that is fingerprinted by content; larger ones by size and mtime."""


def describe(model: Model, served_name: str = "") -> dict[str, Any]:
    """A JSON-like description of a model, for manifests.

    The version of a folder is the fingerprint of its files, or of what it is converted from; of a
    Hugging Face id, the commit in the local cache, if any; of a server's model, its URL and its
    name there (``served_name`` if the user did not name it), because a server tells no more.
    """
    match model:
        case Replay(path=path, reasoning_end=end):
            return {"version": f"sha256:{sha256(path)}"} | (
                {"reasoning_end": end} if end else {}
            )
        case Rule(name=name):
            return {"version": name}
    said = {
        "template_kwargs": dict(model.template_kwargs),
        "reasoning_end": model.reasoning_end,
    }
    if isinstance(model, Attached):
        return {"version": f"{model.url}#{served_name or model.model}", **said}
    if model.conversion:
        version = f"demo:{model.conversion.key}"
    else:
        is_folder = Path(model.path).is_dir()
        version = _fingerprint(model.path) if is_folder else cached_commit(model.path)
    start = f"{model.adapter}="
    paths = [arg.removeprefix(start) for arg in model.args if arg.startswith(start)]
    adapters = [
        _fingerprint(path) for path in paths if model.adapter and Path(path).is_dir()
    ]
    return {
        "version": version,
        "args": list(model.args),
        **said,
        "adapter": "@".join([model.adapter, *adapters]),
        "engine": model.engine,
        "engine_command": list(model.program),
    }


def model_identity(model: Model, served_name: str = "") -> str:
    """The model's part of a content key, which changes when its answers may."""
    return content_key(type(model).__name__, describe(model, served_name))


@cache
def _fingerprint(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file():
            continue
        digest.update(path.relative_to(folder).as_posix().encode())
        if path.stat().st_size <= _SMALL:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        else:
            digest.update(f"{path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return f"sha256:{digest.hexdigest()}"


def cached_commit(name: str) -> str:
    """``name@commit`` from the Hugging Face cache; the bare name before the first download."""
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
    reference = hub / f"models--{name.replace('/', '--')}" / "refs" / "main"
    return f"{name}@{reference.read_text().strip()}" if reference.is_file() else name
