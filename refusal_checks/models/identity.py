"""Identifies models, for manifests and content keys."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from refusal_checks.core.keys import content_key
from refusal_checks.models.spec import Attached, Replay, Rule, Served

Model = Served | Attached | Replay | Rule

_SMALL = 64 * 2**20
"""Most bytes of a file that is fingerprinted by content; larger ones by size and mtime."""


def describe(model: Model, served_name: str = "") -> dict[str, Any]:
    """A JSON-like description of a model, for manifests.

    The version of a folder is the fingerprint of its files, or of what it is converted from; of a
    Hugging Face id, the commit in the local cache, if any; of a server's model, its URL and name,
    because a server tells no more.

    Args:
        served_name: the model's name on its server, if the user did not name it.
    """
    match model:
        case Served():
            return {
                "version": _version(model),
                "args": list(model.args),
                "template_kwargs": dict(model.template_kwargs),
                "reasoning_end": model.reasoning_end,
                "adapter": _adapter(model),
                **_engine(model),
            }
        case Attached(url=url, model=name):
            return {
                "version": f"{url}#{served_name or name}",
                "template_kwargs": dict(model.template_kwargs),
                "reasoning_end": model.reasoning_end,
            }
        case Replay(path=path):
            return {"version": f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"}
        case Rule(name=name):
            return {"version": name}


def model_identity(model: Model, served_name: str = "") -> str:
    """The model's part of a content key, which changes when its answers may."""
    return content_key(type(model).__name__, describe(model, served_name))


def _version(model: Served) -> str:
    if model.conversion:
        return f"demo:{model.conversion.key}"
    path = model.path
    return _fingerprint(path) if Path(path).is_dir() else cached_commit(path)


def _engine(model: Served) -> dict[str, Any]:
    """What another engine than vLLM, or another program, adds; nothing else changes old keys."""
    program = {"engine_command": list(model.program)} if model.program else {}
    return ({} if model.engine == "vllm" else {"engine": model.engine}) | program


def _adapter(model: Served) -> str:
    """The adapter, with the fingerprint of its files if it is a folder; empty without one."""
    if not model.adapter:
        return ""
    start = f"{model.adapter}="
    paths = [arg.removeprefix(start) for arg in model.args if arg.startswith(start)]
    known = [_fingerprint(path) for path in paths if Path(path).is_dir()]
    return "@".join([model.adapter, *known])


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
