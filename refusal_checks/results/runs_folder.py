"""Where the runs of a project are, if nobody says so: as the project's pytest keeps them."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import UserError
from refusal_checks.results.run_folder import ROOT

VARIABLE = "REFUSAL_CHECKS_RUNS"
"""Environment variable that names the folder where nothing else does."""

KEY = "refusal_checks_runs"
FOLDER = "refusal_checks_folder"
"""The keys of a pytest configuration that name the folder, or the one above it."""

_FILES = {
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pyproject.toml": "",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
"""The files that pytest looks for, in its order, each with the section that is its own."""


def usual(folder: Path | None = None) -> Path:
    """The folder of the runs of a project: configured, else by ``VARIABLE``, else ``ROOT``.

    Args:
        folder: in the project; None for the current one.
    """
    named = configured(folder or Path.cwd()) or os.environ.get(VARIABLE, "").strip()
    return Path(named).expanduser() if named else ROOT


def configured(folder: Path) -> Path | None:
    """What the pytest configuration of a folder names; that of the nearest one above counts."""
    for place in (folder, *folder.parents):
        for name, section in _FILES.items():
            with suppress(OSError, ValueError):  # pytest will say what is wrong with its file
                settings = _section(place / name, section)
                if settings is not None:
                    return _named(place, settings)
    return None


def _named(place: Path, settings: Mapping[str, Any]) -> Path | None:
    """The folder that settings name, relative to theirs."""
    for key, below in ((KEY, ""), (FOLDER, "runs")):
        value = settings.get(key) or ""
        words = value if isinstance(value, list) else shlex.split(str(value))
        if words:
            return place / str(words[0]) / below
    return None


def _section(path: Path, section: str) -> Mapping[str, Any] | None:
    """A file's settings for pytest; None if it has none, so that pytest looks on."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if section:
        found = ConfigParser(interpolation=None, strict=False)
        try:
            found.read_string(text)
        except Exception as fault:
            raise ValueError(str(fault)) from None
        is_pytests = path.name.endswith("pytest.ini")  # even an empty one
        return dict(found[section]) if section in found else {} if is_pytests else None
    import tomllib

    tool = tomllib.loads(text).get("tool", {}).get("pytest")
    return {**tool, **tool.get("ini_options", {})} if isinstance(tool, dict) else None


def require_writable(folder: Path, option: str) -> None:
    """Make the folder if it is missing, and check that runs can be written into it.

    Raises:
        UserError: they cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise UserError(
            f"{option} {folder}: name a folder that can be written: {fault.strerror or fault}"
        ) from None
