"""Runs this project's commands in processes forked from one that has loaded the libraries already.

Loading them takes longer than most runs on a fake server do.
"""

import atexit
import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from refusal_checks.plugin.options import OPTIONS

OPTIONS_BY_NAME = {f"--{option.name}": option for option in OPTIONS}
PACKAGE = Path(__file__).parents[2] / "refusal_checks"

LOADED = (
    "aiohttp",
    "anyio.pytest_plugin",
    "datasets",
    "jinja2",
    "pdb",
    "py3langid",
    "refusal_checks.cli.data",
    "refusal_checks.plugin.session",
    "refusal_checks.run.pipeline",
    "rich.console",
    "scipy.stats",
    "xdist.plugin",
    *(
        f"refusal_checks.{folder.replace('/', '.')}.{path.stem}"
        for folder in ("benchmarks/suites", "judges/kinds")
        for path in sorted((PACKAGE / folder).glob("[a-z]*.py"))
    ),
)
"""What most commands need."""

_PRELOADED = "ignore::pytest.PytestAssertRewriteWarning"
"""pytest's warning about libraries that were loaded before it began."""


def for_pytest(words: Iterable[str | Path]) -> list[str]:
    """Write a gate run's options as pytest has them: ``--limit 4`` as ``--refusal-limit=4``."""
    found: list[str] = []
    rest = map(str, words)
    for word in rest:
        name, equals, value = word.partition("=")
        option = OPTIONS_BY_NAME.get(name)
        if option is None:
            found.append(word)
        elif option.metavar and not equals:
            found.append(f"--refusal-{option.name}={next(rest)}")
        else:
            found.append(f"--refusal-{option.name}{equals}{value}")
    return found


class Forked:
    """A running command of this project; as a context manager, it is ended where it is left.

    Args:
        words: ``pytest`` or ``refusal-checks``, and the arguments.
        output: the files of what it prints and of its errors, which may be one.
        environment: all of the command's environment variables.
        prepare: called in the command's process before it begins.
    """

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
        self._output = output
        args = (list(words), folder, output, known, prepare)
        self._process = context.Process(target=_main, args=args)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.is_alive, self.kill = self._process.is_alive, self._process.kill

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.is_alive():
            self.kill()

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
    def said(self) -> str:
        """All that it has printed so far."""
        paths = dict.fromkeys(self._output)
        return "".join(
            path.read_text(errors="replace") for path in paths if path.exists()
        )

    def result(self) -> pytest.RunResult:
        """Wait for its end, and print what it printed, for the report of a failed test."""
        status = self.wait(300)
        out, err = (
            path.read_text(encoding="utf-8", errors="replace") for path in self._output
        )
        print(out, err, sep="\n")
        return pytest.RunResult(
            status, out.splitlines(), err.splitlines(), duration=0.0
        )


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
    os.environ["PYTEST_ADDOPTS"] = (
        f"{environment.get('PYTEST_ADDOPTS', '')} -W {_PRELOADED}"
    )
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
