"""The documentation: every command runs, every link leads somewhere, everything is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.docs_commands import Place, check
from tests.plugin.docs_pages import Command, commands
from tests.plugin.docs_project import copied, prepared


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project that holds what the pages name, with a server in place of every model."""
    folder = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_API_KEY", "PYTEST_ADDOPTS"):
            patch.delenv(name, raising=False)
        patch.setenv("HF_HOME", str(folder / "hf"))
        with prepared(folder) as found:
            yield found


@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_command_does_what_its_page_says(command: Command, place: Place, tmp_path: Path) -> None:
    check(command, copied(place, tmp_path / "project", command))
