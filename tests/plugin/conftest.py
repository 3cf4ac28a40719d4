"""A project of a user's in which pytest itself runs, with the plugin and a fake server."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import toy_model
from tests.support import fake_engines, untouched
from tests.support import project as projects
from tests.support.forked import Forked, for_pytest
from tests.support.project import ROOT as ROOT
from tests.support.project import THRESHOLDS as THRESHOLDS
from tests.support.project import careless as careless
from tests.support.project import in_one_line, made, require_parts
from tests.support.project import well_behaved as well_behaved

toy_model.use()


def pytest_configure(config: pytest.Config) -> None:
    untouched.watch(config)


KEYWORD = ("--judge", "keyword")

UNVERIFIED = 7
"""Exit code of a run that passes, but whose judge nobody tested."""

in_both_modes = pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
"""Runs pytest alone, and with two workers: where the output or the end is another matter then."""


def shown(result: pytest.RunResult) -> str:
    """All that a run printed, in one line however it was wrapped."""
    return in_one_line(result.stdout.str() + result.stderr.str())


class Project(projects.Project):
    """A project with the plugin and the gate test. Each run is a process: pytest is tested here."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._commands = 0
        # Bytecode that is compiled anew in every process would be half of a short run.
        self.patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        self.setenv("PY_COLORS", "0")
        self.conftest()
        addopts = "addopts = -p no:cacheprovider -p no:hypothesispytest -p no:timeout\n"
        self.write("tox.ini", f"[pytest]\n{addopts}")
        shutil.copy(ROOT / "tests" / "gates" / "test_gates.py", self.path)

    def conftest(self, text: str = "") -> None:
        """A conftest.py that loads the plugin."""
        plugins = 'pytest_plugins = ["refusal_checks.plugin"]'
        self.write("conftest.py", f"{textwrap.dedent(text)}\n{plugins}\n")

    def start(
        self, *args: str | Path, prepare: Callable[[], None] | None = None
    ) -> Forked:
        """A command that goes on: ``pytest`` or ``refusal-checks``, and its arguments.

        Options are written as ``refusal-checks gate`` has them.
        """
        self._commands += 1
        out, err = (
            self.path.with_name(f"{self.path.name}-{self._commands}-{n}")
            for n in (1, 2)
        )
        paths = [str(self.path), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        return Forked(
            for_pytest(args) if args[0] == "pytest" else [str(arg) for arg in args],
            self.path,
            (out, err),
            environment,
            prepare,
        )

    def command(self, *args: str | Path) -> pytest.RunResult:
        """``refusal-checks``, to its end."""
        return self.start("refusal-checks", *args).result()

    def run(self, *args: str | Path) -> pytest.RunResult:
        """pytest, to its end."""
        temporary = self.path.with_name(f"{self.path.name}-temporary-{self._commands}")
        return self.start("pytest", f"--basetemp={temporary}", *args).result()

    def gate(self, *args: str | Path) -> pytest.RunResult:
        """A run of the server's model, which is also the judge, with two samples a prompt."""
        models = ("--candidate", self.model, "--judge", self.model, "--samples", "2")
        verbosity = () if "-q" in args else ("-v",)
        return self.run(*models, *verbosity, *args)


def refused(result: pytest.RunResult, *parts: str) -> None:
    """A run ended as a mistake of the user's, with a message that has all these parts (globs)."""
    said = in_one_line(result.stderr.str())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in said
    require_parts(said, parts)


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with made(tmp_path_factory.mktemp("project"), Project) as project:
        yield project


@pytest.fixture
def engines(project: Project) -> Iterator[Project]:
    """A project with a fake ``vllm``, of which no process stays behind."""
    with fake_engines.installed(project.path):
        yield project


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project for all tests of a file."""
    with made(tmp_path_factory.mktemp("project"), Project) as project:
        yield project
