"""Evaluations on a fake server in this process: no test here starts pytest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fake_engines, toy_model, untouched
from tests.project import Project, made

toy_model.use()


def pytest_configure(config: pytest.Config) -> None:
    untouched.watch(config)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with made(tmp_path) as project:
        yield project


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project for all tests of a file."""
    with made(tmp_path_factory.mktemp("project")) as project:
        yield project


@pytest.fixture
def engines(project: Project) -> Iterator[Project]:
    """A project with a fake ``vllm``, of which no process stays behind."""
    with fake_engines.installed(project.path):
        yield project
