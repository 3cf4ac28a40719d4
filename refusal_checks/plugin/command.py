"""``refusal-checks gate``: run pytest for the gates only, without a folder's own configuration."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.results import project, run_folder


def run(folder: Path, words: Sequence[str]) -> int:
    """Gate a model in a folder; return the exit code.

    Args:
        words: the command's arguments: the model, options of gates and options of pytest.
    """
    # These set pytest up for the folder's other tests.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    return int(pytest.main(arguments(folder, words)))


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """Return pytest's arguments for a gate run in a folder."""
    runs = project.usual_root(folder)
    moved = f"{project.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    return [
        *("-c", str(Path(__file__).parent / "gate.ini"), f"--rootdir={folder}"),
        *("--noconftest", "-p", "refusal_checks.plugin"),
        *("-p", "refusal_checks.plugin.models_as_arguments"),
        *(() if runs == run_folder.ROOT else ("-o", moved)),
        *words,
        # The package was loaded before pytest could rewrite its assertions, of which it has none.
        # This must follow the user's own -W error.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    ]
