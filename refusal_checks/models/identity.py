"""What a model's stored answers depend on: its version, arguments and template variables."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_checks.io.files import read_once, sha256
from refusal_checks.io.store import content_key
from refusal_checks.models.model_files import argument_values
from refusal_checks.models.model_names import Attached, Model, Replay, Rule, Served
from refusal_checks.models.weights import PATIENCE

_SMALL = 64 * 2**20
"""Up to this many bytes, a file is fingerprinted by its whole content."""

_PARTS, _PART = 32, 2**16
"""A larger one is fingerprinted by its size, its time and so many parts of so many bytes, evenly
spaced: in container images and on network shares two checkpoints may have the same size and time.
"""


def describe_model(model: Model, served_name: str = "") -> dict[str, Any]:
    """Describe a model as JSON-like data, for manifests.

    The version of a folder is the fingerprint of its files, or of what they are converted from;
    that of a Hugging Face id is its commit; that of a server's model is its URL and its name there
    (``served_name`` if the user did not name it), since a server tells no more.
    """
    if isinstance(model, Rule):
        return {"version": model.name}
    if isinstance(model, Replay):
        description = {"version": f"sha256:{sha256(model.path)}"}
        if model.reasoning_end:
            description["reasoning_end"] = model.reasoning_end
        return description

    settings: dict[str, Any] = {
        "template_kwargs": dict(model.template_kwargs),
        "reasoning_end": model.reasoning_end,
    }
    if model.judge_reasoning:
        settings["judge_reasoning"] = True
    if isinstance(model, Attached):
        return {"version": f"{model.url}#{served_name or model.model}", **settings}
    return {
        "version": _find_version(model),
        "args": list(model.args),
        "files": _digest_files(model),
        **settings,
        "adapter": _describe_adapter(model),
        "engine_command": list(model.program),
    }


def _find_version(model: Served) -> str:
    if model.weights:
        return f"made:{model.weights.key}"
    if Path(model.path).is_dir():
        return _fingerprint(model.path)
    revision = argument_values(model.args).get("--revision") or "main"
    # An engine loads the hub's latest commit, even where an earlier one is cached.
    return _commit_on_hub(model.path, revision) or cached_commit(model.path, revision)


def _digest_files(model: Served) -> dict[str, str]:
    """Digests of the files that arguments name, such as a chat template."""
    digests = {}
    for argument in model.args:
        for word in (argument, argument.partition("=")[2]):
            # Unlike Path, os.path accepts an argument that is too long for a path.
            if os.path.isfile(word) and os.path.getsize(word) <= _SMALL:  # noqa: PTH113, PTH202
                digests[word] = sha256(Path(word))
    return digests


def _describe_adapter(model: Served) -> str:
    """The adapter's name and fingerprint; manifests compare judges by the fingerprint."""
    for argument in model.args:
        name, _, folder = argument.partition("=")
        if model.adapter and name == model.adapter and Path(folder).is_dir():
            return f"{model.adapter}@{_fingerprint(folder)}"
    return model.adapter


def model_identity(model: Model, served_name: str = "") -> str:
    """The model's part of a content key; it changes whenever the answers may."""
    return content_key(type(model).__name__, describe_model(model, served_name))


@read_once
def _fingerprint(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file():
            continue
        # Names count, too: a tokenizer's files may be swapped.
        digest.update(path.relative_to(folder).as_posix().encode())
        if path.stat().st_size <= _SMALL:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        else:
            digest.update(f"{path.stat().st_size} {path.stat().st_mtime_ns}".encode())
            for part in _read_parts(path):
                digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _read_parts(path: Path) -> Iterator[bytes]:
    last = path.stat().st_size - _PART
    with path.open("rb") as file:
        for number in range(_PARTS):
            file.seek(number * last // (_PARTS - 1))
            yield file.read(_PART)


@read_once
def _commit_on_hub(name: str, revision: str) -> str:
    """``name@commit`` as the hub has it now; empty if it cannot be reached or has no such model."""
    from huggingface_hub import HfApi

    if name.count("/") != 1:
        return ""  # not ORG/MODEL
    try:
        info = HfApi().model_info(name, revision=revision, timeout=PATIENCE)
    except Exception:  # its HTTP library has its own; the engine itself reports it best
        return ""
    return f"{name}@{info.sha}" if info.sha else ""


def cached_commit(name: str, revision: str = "main") -> str:
    """``name@commit`` from the Hugging Face cache; the bare name before the first download."""
    # As huggingface_hub finds it, whose import loads HTTP.
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
    reference = hub / f"models--{name.replace('/', '--')}" / "refs" / revision
    if not reference.is_file():
        return name
    return f"{name}@{reference.read_text().strip()}"
