"""Runs this project's commands in processes forked from one that has loaded the libraries already.

Loading them takes longer than most runs on a fake server do.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing.popen_forkserver  # kept by pytester only if imported before a test
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "refusal_checks"

LOADED = (
    "aiohttp",
    "anyio.pytest_plugin",
    "datasets",
    "diptest",
    "jinja2",
    "pdb",
    "py3langid",
    "refusal_checks.cli.data",
    "refusal_checks.plugin.hooks",
    "refusal_checks.run.run",
    "rich.console",
    "scipy.stats",
    "xdist.plugin",
    *(
        f"refusal_checks.{folder.replace('/', '.')}.{path.stem}"
        for folder in ("benchmarks/suites", "engines/kinds", "judges/kinds")
        for path in sorted((PACKAGE / folder).glob("[a-z]*.py"))
    ),
)
"""What most commands need."""

_PRELOADED = "ignore::pytest.PytestAssertRewriteWarning"
"""pytest's warning about libraries that were loaded before it began."""


class Forked:
    """A running command of this project, with what pytester uses of ``subprocess.Popen``.

    Args:
        words: ``pytest`` or ``refusal-checks``, and the arguments.
        environment: all of the command's environment variables.
        prepare: called in the command's process before it begins.
    """

    stdin = None

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        output: tuple[Path, Path],
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, *LOADED])
        known = dict(os.environ if environment is None else environment)
        args = (list(words), folder, output, known, prepare)
        self._process = context.Process(target=_main, args=args)
        self._process.start()

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the command has ended.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode

    @property
    def pid(self) -> int:
        """Of the command's process."""
        assert self._process.pid is not None
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the command runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def _main(
    words: list[str],
    folder: Path,
    output: tuple[Path, Path],
    environment: dict[str, str],
    prepare: Callable[[], None] | None,
) -> None:
    """Run the command in its own process."""
    gc.freeze()  # pytest collects garbage, and what was loaded before is none
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.environ["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} -W {_PRELOADED}"
    for stream, path in zip((1, 2), output, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.path.insert(0, str(folder))
    sys.argv = words
    if prepare:
        prepare()
    try:
        sys.exit(_entry(words))
    finally:
        atexit._run_exitfuncs()


def _entry(words: list[str]) -> int:
    if words[0] == "pytest":
        return int(pytest.main(words[1:]))
    assert words[0] == "refusal-checks", words
    from refusal_checks.cli import main

    main()
    return 0
