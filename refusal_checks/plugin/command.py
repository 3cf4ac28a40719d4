"""``refusal-checks gate``: run pytest for the gates only, without a folder's own configuration."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.plugin.options import GATE, OPTIONS
from refusal_checks.results import project, run_folder

ABOUT = """\
Gate a release: ask the model under test, let the judge read its answers, and
decide every gate of the run file.

MODEL is ORG/MODEL, a folder, a server (http://HOST:PORT/v1#MODEL), replay:FILE
or PREFIX:NAME of an extension. Answers and runs are kept in .refusal-checks."""

MORE = """\
Exit codes: 0 every gate passed; 1 one failed or could not be evaluated; 4 wrong
input; 7 all passed, but something was not proven; 16 an engine did not start.

pytest's options work, too: -k EXPR selects gates, --collect-only -q lists them,
-v shows all figures, -n 2 uses two workers, --junitxml FILE writes JUnit;
--help-pytest lists them all."""


def run(folder: Path, words: Sequence[str]) -> int:
    """Gate a model in a folder; return the exit code.

    Args:
        words: the command's arguments: the model, options of gates and options of pytest.
    """
    if {"-h", "--help"} & set(words):
        print(usage().rstrip())
        return 0
    # These set pytest up for the folder's other tests.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    return int(pytest.main(arguments(folder, words)))


def usage() -> str:
    """What ``-h`` prints."""
    parser = argparse.ArgumentParser(
        prog="refusal-checks gate",
        usage="%(prog)s MODEL [options]",
        description=ABOUT,
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    group = parser.add_argument_group("options")
    for option in OPTIONS:
        if option.metavar:
            group.add_argument(
                f"--{option.name}", metavar=option.metavar, help=option.about
            )
        else:
            group.add_argument(
                f"--{option.name}", action="store_true", help=option.about
            )
    return parser.format_help()


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """Return pytest's arguments for a gate run in a folder."""
    runs = project.usual_root(folder)
    moved = f"{project.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    return [
        *("-c", str(Path(__file__).parent / "gate.ini"), f"--rootdir={folder}"),
        *("--noconftest", "-p", GATE, "-p", "refusal_checks.plugin"),
        *(() if runs == run_folder.ROOT else ("-o", moved)),
        *("--help" if word == "--help-pytest" else word for word in words),
        # The package was loaded before pytest could rewrite its assertions, of which it has none.
        # This must follow the user's own -W error.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    ]
