"""``refusal-checks gate``: pytest, set up for the gates alone, whatever a folder's pytest does."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.results import project, run_folder


def run(folder: Path, words: Sequence[str]) -> int:
    """Gate models in a folder; the exit code.

    Args:
        words: the words of the command: models, options of gates, and options of pytest.
    """
    for name in (
        "PYTEST_ADDOPTS",
        "PYTEST_PLUGINS",
    ):  # they set up pytest for other tests
        os.environ.pop(name, None)
    return int(pytest.main(arguments(folder, words)))


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """The arguments of pytest for a gate run that is called in a folder."""
    runs = project.usual_root(folder)
    moved = f"{project.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    return [
        *("-c", str(Path(__file__).parent / "gate.ini"), f"--rootdir={folder}"),
        *("--noconftest", "-p", "refusal_checks.plugin"),
        *("-p", "refusal_checks.plugin.models_as_arguments"),
        *(() if runs == run_folder.ROOT else ("-o", moved)),
        *words,
        # The package was loaded before pytest could rewrite its assertions, of which it has none.
        *(
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ),  # after the user's own -W error
    ]
