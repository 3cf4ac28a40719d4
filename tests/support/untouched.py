"""Fails a session of tests that changed a program of the machine's, or a package.

What people's own programs change meanwhile is not looked at: home, caches, temporary folders.
"""

import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Snapshot = Mapping[str, tuple[int, ...]]
"""Paths, with all that tells one file from another: kind, size, time of change and inode."""


def watched_folders() -> list[Path]:
    """The default PATH, and the folders of this Python's and this user's programs and packages."""
    programs = [Path(name) for name in DEFAULT_PATH.split(":")]
    programs += [Path(sys.executable).parent, Path(sys.executable).resolve().parent]
    packages = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    return [*programs, *packages, Path.home() / ".local" / "bin"]


def snapshot(folders: Iterable[Path]) -> Snapshot:
    """What lies in these folders, not below: a folder in one of them by its name alone."""
    entries: dict[str, tuple[int, ...]] = {}
    for folder in {
        path.resolve() for path in folders if os.access(path, os.R_OK | os.X_OK)
    }:
        for entry in os.scandir(folder):
            if entry.name == "__pycache__":
                continue
            if entry.is_dir(follow_symlinks=False):
                entries[entry.path] = (stat.S_IFDIR,)
            else:
                about = entry.stat(follow_symlinks=False)
                kind = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino)
                entries[entry.path] = kind
    return entries


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """One line for each path that was added, removed or changed."""
    lines = []
    for path in sorted({*before, *after}):
        if path not in before:
            lines.append(f"{path} is new")
        elif path not in after:
            lines.append(f"{path} is gone")
        elif before[path] != after[path]:
            lines.append(f"{path} was changed")
    return lines


class Watch:
    """A plugin of pytest that looks at folders before the first test and after the last one."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)
        self._before = snapshot(self._folders)
        self._changes: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._changes = changes(self._before, snapshot(self._folders))
        if self._changes and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        if self._changes:
            terminalreporter.section(
                "files outside the tests' own folders", red=True, bold=True
            )
            terminalreporter.line(
                "A test, or another program on this machine, changed these:"
            )
            for line in self._changes:
                terminalreporter.line(line)


def watch(config: pytest.Config, folders: Iterable[Path] | None = None) -> None:
    """Watch these folders, else the usual ones, once for a session: not in workers of xdist."""
    if hasattr(config, "workerinput") or config.pluginmanager.has_plugin(__name__):
        return
    usual = watched_folders() if folders is None else folders
    config.pluginmanager.register(Watch(usual), __name__)
