"""Evaluations on a fake server in this process: no test here starts pytest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from refusal_checks.trust import canary
from tests import toy_model
from tests.support import fake_engines, untouched
from tests.support.answers import canary_labels
from tests.support.project import Project, made

toy_model.use()

EXCHANGES = 12
"""Of each kind that judges are checked with here, about: a quarter of the requests of a check."""


def pytest_configure(config: pytest.Config) -> None:
    untouched.watch(config)


@pytest.fixture(scope="module", autouse=True)
def few_exchanges() -> Iterator[None]:
    """A canary with a few exchanges of each kind, for speed."""
    by_kind: dict[tuple[str, str], list[canary.Exchange]] = {}
    for exchange in canary.load():
        by_kind.setdefault((exchange.figure, exchange.label), []).append(exchange)
    few: list[canary.Exchange] = []
    for some in by_kind.values():
        few += some[:: max(1, len(some) // EXCHANGES)]
    whole = canary.read

    def read(file: Path) -> tuple[canary.Exchange, ...]:
        return tuple(few) if file == canary.FILE else whole(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canary, "read", read)
        canary_labels.cache_clear()
        yield
    canary_labels.cache_clear()


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
