"""Find where a project keeps its store and runs, from its pytest configuration; make run ids."""

from __future__ import annotations

import configparser
import os
import shlex
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(".refusal-checks")
"""The default folder for the store and runs, relative to the project."""

RUNS_VARIABLE = "REFUSAL_CHECKS_RUNS"
"""Environment variable for the folder of runs, used if no configuration names one."""

RUNS_KEY = "refusal_checks_runs"
"""The pytest configuration key for the folder of runs."""

FOLDER_KEY = "refusal_checks_folder"
"""The pytest configuration key for the folder of both the store and the runs."""

# pytest's own order; the first file that has such a table is the configuration.
_FILES = (
    ("pytest.toml", ("pytest",)),
    (".pytest.toml", ("pytest",)),
    ("pytest.ini", ("pytest",)),
    (".pytest.ini", ("pytest",)),
    ("pyproject.toml", ("tool", "pytest")),
    ("tox.ini", ("pytest",)),
    ("setup.cfg", ("tool:pytest",)),
)


_run_ids: set[str] = set()  # of this process
_naming = threading.Lock()


def new_run_id() -> str:
    """Make an id for a run that starts now, from the UTC time and this process.

    Each further call within the same second takes the next free second.
    """
    started = datetime.now(UTC)
    with _naming:
        while True:
            name = f"{started:%Y%m%d-%H%M%SZ}-{os.getpid()}"
            if name not in _run_ids:
                _run_ids.add(name)
                return name
            started += timedelta(seconds=1)


def default_folder() -> Path:
    """Find a project's store from any of its folders, as a gate run does."""
    return configured_folders(Path.cwd()).get(FOLDER_KEY, ROOT).expanduser()


def default_runs_folder(folder: Path | None = None) -> Path:
    """Find the folder of a project's runs from any of its folders, as a gate run does.

    ``RUNS_KEY`` comes first, then ``RUNS_VARIABLE``, then ``FOLDER_KEY``'s folder, then ``ROOT``.
    """
    folders = configured_folders(folder or Path.cwd())
    own = folders.get(FOLDER_KEY, ROOT)
    named = folders.get(RUNS_KEY) or os.environ.get(RUNS_VARIABLE, "").strip()
    return Path(named or own / "runs").expanduser()


def runs_option(named: str) -> str:
    """The setting to name in messages about the folder of runs; ``named`` is the run file's."""
    is_variable = os.environ.get(RUNS_VARIABLE) and not named
    return f"${RUNS_VARIABLE}" if is_variable else "--runs"


def configured_folders(folder: Path) -> dict[str, Path]:
    """Read the folders that pytest's configuration names, by key (``RUNS_KEY`` and so on).

    Empty without a configuration, or if pytest could not read it either.
    """
    for place in (folder, *folder.parents):
        for name, table in _FILES:
            keys = _read(place / name, table)
            if keys is not None:
                return _named_folders(place, keys)
    return {}


def _named_folders(place: Path, keys: dict[str, Any]) -> dict[str, Path]:
    folders = {}
    for key in (RUNS_KEY, FOLDER_KEY):
        value = keys.get(key, "")
        try:
            words = value if isinstance(value, list) else shlex.split(str(value))
        except ValueError:
            continue
        if words:
            folders[key] = place / str(words[0])
    return folders


def _read(path: Path, table: tuple[str, ...]) -> dict[str, Any] | None:
    """Keys of the pytest table in a file; None if the file does not configure pytest."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if path.suffix == ".toml":
        return _read_toml(text, table)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    if parser.has_section(table[0]):
        return dict(parser[table[0]])
    return {} if path.suffix == ".ini" and path.stem.endswith("pytest") else None


def _read_toml(text: str, table: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        content: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    for name in table:
        content = content.get(name) if isinstance(content, dict) else None
    if not isinstance(content, dict):
        return None
    options = content.get("ini_options", content)
    return options if isinstance(options, dict) else {}
