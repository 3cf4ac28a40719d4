"""Where the runs of a project are, if nobody says so: as the project's pytest keeps them."""

from __future__ import annotations

import os
import shlex
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
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
    "pytest.toml": "pytest",
    ".pytest.toml": "pytest",
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pyproject.toml": "",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
"""The files that pytest looks for, in its order, each with the section that is its own."""

_WRONG = (OSError, ValueError, AttributeError, TypeError, RecursionError)
"""Raised by files that cannot be read, or that have other values where tables belong."""


def usual(folder: Path | None = None) -> Path:
    """The folder of the runs of a project, as a gate run there finds it.

    By ``KEY``, else by ``VARIABLE``, else below what ``FOLDER`` names, else ``ROOT``.

    Args:
        folder: in the project; None for the current one.
    """
    found = configured(folder or Path.cwd())
    own = found.get(FOLDER)
    named = found.get(KEY) or os.environ.get(VARIABLE, "").strip() or (own and own / "runs")
    return Path(named or ROOT).expanduser()


def configured(folder: Path) -> Mapping[str, Path]:
    """The folders that pytest's configuration of a folder names, by ``KEY`` and ``FOLDER``.

    That of the nearest folder above counts.
    """
    for place in (folder, *folder.parents):
        for name, section in _FILES.items():
            with suppress(*_WRONG):  # pytest will say what is wrong with its file
                settings = _section(place / name, section)
                if settings is not None:
                    return dict(_named(place, settings))
    return {}


def _named(place: Path, settings: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The folders that settings name, relative to theirs."""
    for key in (KEY, FOLDER):
        value = settings.get(key) or ""
        words = value if isinstance(value, list) else shlex.split(str(value))
        if words:
            yield key, place / str(words[0])


def _section(path: Path, section: str) -> Mapping[str, Any] | None:
    """A file's settings for pytest; None if it has none, so that pytest looks on."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return _of_toml(tomllib.loads(text), section)
    found = ConfigParser(interpolation=None, strict=False)
    try:
        found.read_string(text)
    except Exception as fault:
        raise ValueError(str(fault)) from None
    is_pytests = path.name.endswith("pytest.ini")  # even an empty one
    return dict(found[section]) if section in found else {} if is_pytests else None


def _of_toml(content: Mapping[str, Any], section: str) -> Mapping[str, Any] | None:
    """The settings in a TOML file, in a table of this name if the file is pytest's own."""
    if section:
        return dict(content.get(section, {}))  # even an empty one
    tool = content.get("tool", {}).get("pytest")
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
