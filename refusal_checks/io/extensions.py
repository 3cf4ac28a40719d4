"""Extensions: other people's modules, from installed packages or files named in run files.

An extension is a module that defines what a module of this package does: ``BENCHMARKS``,
``build`` (a way of judging), decorated metrics or ``write`` (a report format), or one with
``provide`` (models by name). One module may hold several of these; docs/how-to/extending.md
describes each.
"""

import hashlib
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isfunction
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from refusal_checks.core.errors import UserError
from refusal_checks.io.files import resolve_path

GROUP = "refusal_checks"
"""The entry point group in which a package names its extension modules."""

OWN = "refusal-checks"


class ExtensionError(UserError):
    """An extension cannot be imported, or does not define what it should."""


@dataclass(frozen=True)
class Extension:
    """A module that adds to this package.

    Attributes:
        name: name of the way of judging or the format that it adds.
        origin: this package, a distribution with its version, or a file.
        sha256: digest of its file; empty for this package's own modules, and without a file.
    """

    name: str
    origin: str
    module: ModuleType
    sha256: str = ""

    def has(self, attribute: str) -> bool:
        """True if the module defines the attribute; an imported function does not count."""
        value = vars(self.module).get(attribute)
        is_other = isfunction(value) and value.__module__ != self.module.__name__
        return value is not None and not is_other


@dataclass
class _Loaded:
    """Extensions that this process has imported.

    Attributes:
        installed: extensions of installed packages; None before they are looked up.
        faults: why other extensions of packages cannot be used.
        origins: origin of each extension, by module name.
    """

    installed: list[Extension] | None = None
    faults: list[str] = field(default_factory=list)
    files: dict[Path, Extension] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)


_LOADED = _Loaded()


def load_all() -> tuple[Extension, ...]:
    """All loaded extensions: those of installed packages, then files.

    If an extension calls this during its import, it sees those loaded before it.
    """
    if _LOADED.installed is None:
        _LOADED.installed = []
        points = entry_points(group=GROUP)
        # In a fixed order: which of two equal names is refused must not change by installation.
        for point in sorted(points, key=lambda point: (point.name, point.value)):
            try:
                _LOADED.installed.append(_load_point(point))
            except ExtensionError as fault:
                # Commands that need no extension still work, and say what is broken.
                _LOADED.faults.append(str(fault))
    return (*_LOADED.installed, *_LOADED.files.values())


def faults() -> list[str]:
    """Why extensions of installed packages cannot be used; empty if all can."""
    load_all()
    return _LOADED.faults


def require_sound() -> None:
    """Raise ExtensionError if an extension of an installed package cannot be used."""
    for fault in faults():
        raise ExtensionError(fault)


def providers(package: str, path: Iterable[str], attribute: str) -> Iterator[Extension]:
    """Our package's modules at this path, then the extensions that define the attribute."""
    for info in iter_modules(path):
        if not info.name.startswith("_"):
            yield Extension(info.name, OWN, import_module(f"{package}.{info.name}"))
    for extension in load_all():
        if extension.has(attribute):
            yield extension


@contextmanager
def blame(extension: Extension) -> Iterator[None]:
    """Turn an exception from an extension's code, not from ours, into an error that names it."""
    try:
        yield
    except UserError:
        raise
    except Exception as fault:
        if extension.origin == OWN:
            raise
        raise ExtensionError(
            f"extension {extension.origin}: {_describe_fault(fault)}"
        ) from fault


def extension_line(fault: Exception) -> str:
    """The line of an extension that raised an exception, as FILE:LINE; empty if none did."""
    files = {getattr(extension.module, "__file__", None) for extension in load_all()}
    # The innermost first: an extension may have been called through another.
    for frame in reversed(traceback.extract_tb(fault.__traceback__)):
        if frame.filename in files:
            return f"{frame.filename}:{frame.lineno}"
    return ""


class UniqueNames:
    """Unique names with their origins; ``what`` says what they name, in the plural."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._origins: dict[str, str] = {}

    def add(self, name: str, origin: str) -> None:
        """Register a name; raise an ExtensionError that names both origins if it is taken."""
        if name in self._origins:
            raise ExtensionError(
                f'rename one: two {self._what} are called "{name}", one of '
                f"{self._origins[name]}, one of {origin}"
            )
        self._origins[name] = origin


def module_origin(module: str) -> str:
    """A module's origin by its name; see ``Extension.origin``."""
    if module.partition(".")[0] == __name__.partition(".")[0]:
        return OWN
    return _LOADED.origins.get(module, module)


def _load_point(point: EntryPoint) -> Extension:
    brought_by = "an installed package"
    if point.dist:
        brought_by = f"{point.dist.name} {point.dist.version}"
    where = f"{brought_by} ({point.value})"
    _LOADED.origins[point.module] = where
    try:
        module = point.load()
    except (Exception, SystemExit) as fault:
        raise ExtensionError(
            f"extension {where}: repair or uninstall it; importing it failed: "
            f"{_describe_fault(fault)}"
        ) from fault
    if not isinstance(module, ModuleType):
        raise ExtensionError(f"extension {where}: its entry point must name a module")
    digest = ""
    path = getattr(module, "__file__", None)
    if path:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return Extension(point.name, where, module, digest)


def load_file(folder: Path, name: str) -> Extension:
    """Import a file once, by its path from a run file's folder; it must be in the same project."""
    if Path(name).is_absolute() or name.startswith("~"):
        raise ExtensionError(
            f"{name}: write its path relative to the run file's folder"
        )
    path = resolve_path(folder / name)
    project = _project_of(resolve_path(folder))
    # Who may change a run file may run code of the repository, and no other.
    if not path.is_relative_to(project):
        raise ExtensionError(
            f"{name}: move it below {project}: files elsewhere are not imported"
        )
    if path.suffix != ".py" or not path.is_file():
        raise ExtensionError(
            f"{name}: name an existing Python file (.py): {path} is not one"
        )
    if path not in _LOADED.files:
        _LOADED.files[path] = _run(path, str(folder / name))
    return _LOADED.files[path]


def _project_of(folder: Path) -> Path:
    """The nearest enclosing folder with a repository or project file; else the folder itself."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists() or (parent / "pyproject.toml").exists():
            return parent
    return folder


def _run(path: Path, shown: str) -> Extension:
    """Run a file as a module. Its bytes are read once, and no cache is written beside it."""
    content = path.read_bytes()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module = ModuleType(f"refusal_checks_extension_{digest}_{path.stem}")
    module.__file__ = str(path)
    # Dataclasses and pickle look a class's module up by its name.
    sys.modules[module.__name__] = module
    _LOADED.origins[module.__name__] = shown
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)  # noqa: S102 (documented)
    except (Exception, SystemExit) as fault:
        del sys.modules[module.__name__]
        raise ExtensionError(
            f"extension {shown}: importing it failed: {_describe_fault(fault)}"
        ) from fault
    return Extension(path.stem, shown, module, hashlib.sha256(content).hexdigest())


def _describe_fault(fault: BaseException) -> str:
    """Describe an exception in one line, with the place where it was raised."""
    text = f"{type(fault).__name__}: {fault}"
    if isinstance(fault, SyntaxError):  # which has its place
        return text
    # The innermost line: where it broke, which may be in a package that the extension uses.
    last = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{text} ({last.filename}, line {last.lineno})"
