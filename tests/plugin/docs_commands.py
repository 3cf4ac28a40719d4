"""How a command of the documentation is run: with models, data and limits that a test can have.

Every command runs in a process of its own, forked from one that has loaded the libraries already.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from refusal_checks.run.options import command_line
from tests.plugin.conftest import ROOT
from tests.plugin.docs_pages import Command

NOT_RUN = {
    "pip install": "needs a package index, and changes this environment",
    "docker": "needs a container engine",
    "kubectl": "needs a cluster",
    "sbatch": "needs a cluster",
    "srun": "needs a cluster",
    "ray": "needs a cluster",
    "serve": "needs a cluster",
    "vllm": "needs a real engine",
    "sglang": "needs a real engine",
    "python -m sglang": "needs a real engine",
    "python -m vllm": "needs a real engine",
    "git": "would act on this repository",
    "apt-get": "changes the machine",
    "curl": "needs a network",
    "export": "acts on the reader's own shell",
    "cd": "acts on the reader's own shell",
    "python -m tests": "takes minutes, or real engines",
}
"""Commands that are only read: the words that they begin with, and why."""

MODELS = ("--candidate", "--judge")
NO_MODEL = re.compile(r"replay:|labels(:|$)|keyword$")
"""Values of these options that name no model."""

ENGINE = re.compile(r"--(candidate|judge)-(args|devices)\b|--placement\b")
"""Options of engines that are started: with them all is checked up to the start."""

SHORT = {"--limit": "40", "--samples": "1"}
"""What keeps a run short, where the command does not say it."""

LOADED = (
    "aiohttp",
    "anyio.pytest_plugin",
    "datasets",
    "diptest",
    "matplotlib.figure",
    "py3langid",
    "refusal_checks.cli.data",
    "refusal_checks.plugin",
    "refusal_checks.run.run",
    "scipy.stats",
    "xdist.plugin",
)
"""What most commands need, loaded once for all of them."""

_PRELOADED = "ignore::pytest.PytestAssertRewriteWarning"
"""What pytest says of libraries that were loaded before it began."""

_OPERATORS = re.compile(r"[|&;()<>]+")


@dataclass(frozen=True)
class Place:
    """Where commands run.

    Attributes:
        folder: the current directory, with all the files that the pages name.
        url: the server behind every model's name.
        mirror: the public data.
    """

    folder: Path
    url: str
    mirror: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"REFUSAL_CHECKS_DATA": str(self.mirror), "PYTHONPATH": str(ROOT)}


def check(command: Command, place: Place) -> None:
    """Run a command, or read it where it cannot be run.

    Raises:
        AssertionError: it does not do what the page says.
    """
    subprocess.run(["bash", "-n", "-c", command.text], check=True)
    simple = list(_simple(command.text))
    for number, words in enumerate(simple, 1):
        promised = command.status if number == len(simple) else 0
        if words[0] == "make":
            for made in _made(words):
                _check(made, place, 0, only_collect=True)
        else:
            _check(words, place, promised)


def slug(model: str) -> str:
    """What the server calls a model."""
    return re.sub(r"\W+", "-", model)


def models(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The models that a command names, with their places."""
    for place, word in enumerate(words):
        if place and words[place - 1] in MODELS and not NO_MODEL.match(word):
            yield place, word


def _simple(text: str) -> Iterator[list[str]]:
    """The simple commands of a line, without redirections."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""  # within a word, as in a URL, # begins no comment
    words: list[str] = []
    skipped = False
    for word in lexer:
        if _OPERATORS.fullmatch(word):
            skipped = word[0] in "<>"
            if not skipped and words:
                yield words
                words = []
        elif not skipped:
            words.append(word)
        else:
            skipped = False
    if words:
        yield words


def _made(words: Sequence[str]) -> Iterator[list[str]]:
    """The pytest commands that make would run; all its commands are read."""
    done = subprocess.run(
        [words[0], "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        subprocess.run(["bash", "-n", "-c", line], check=True)
        found = shlex.split(line)
        if Path(found[0]).name == "pytest":
            paths = [word for word in found[1:] if word.startswith("tests/")]
            assert all((ROOT / path).is_dir() for path in paths), line
            yield ["pytest", *(word for word in found[1:] if word not in paths)]


def _check(words: list[str], place: Place, promised: int, only_collect: bool = False) -> None:
    environment = place.environment
    while "=" in words[0]:
        name, _, environment[name] = words.pop(0).partition("=")
    if any(re.match(rf"{start}\b", shlex.join(words)) for start in NOT_RUN):
        return
    if only_collect or any(map(ENGINE.match, words)):
        words = [*words, "--collect-only"]
    else:
        words = _attached(words, place)
        if words[0] == "pytest" or words[:2] == ["refusal-checks", "batch"]:
            words = _shortened(words)
    status, output = run(words, place.folder, environment)
    assert status == promised, f"{shlex.join(words)}: exit code {status}, not {promised}\n{output}"


def _attached(words: Sequence[str], place: Place) -> list[str]:
    """The command with the server in place of every model."""
    found = list(words)
    for number, model in models(words):
        found[number] = f"{place.url}#{slug(model)}"
    return found


def _shortened(words: Sequence[str]) -> list[str]:
    given = {word.partition("=")[0] for word in words}
    missing = [(name, value) for name, value in SHORT.items() if name not in given]
    return [*words, *(word for pair in missing for word in pair)]


def run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of one of this project's own commands."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *LOADED])
    output = folder / "output.txt"
    process = context.Process(target=_main, args=(list(words), folder, environment, output))
    process.start()
    process.join(300)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode or 0, output.read_text(encoding="utf-8", errors="replace")


def _main(words: list[str], folder: Path, environment: dict[str, str], output: Path) -> None:
    """What happens in the command's own process."""
    from tests.plugin.docs_data import repin

    gc.freeze()  # pytest collects garbage, and what was loaded before is none
    os.chdir(folder)
    os.environ.update(environment)
    os.environ["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} -W {_PRELOADED}"
    with output.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    repin(Path(environment["REFUSAL_CHECKS_DATA"]))
    sys.argv = words
    sys.exit(_entry(words))


def _entry(words: list[str]) -> int:
    if words[0] == "pytest":
        return int(pytest.main(words[1:], [_UpToTheEngines()]))
    assert words[0] == "refusal-checks", f"{words[0]}: name it in NOT_RUN, or say how to run it"
    from refusal_checks.cli import main

    main()
    return 0


class _UpToTheEngines:
    """Reads the options where the gates are only collected, as a run would before it starts."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        given = session.config
        if given.option.collectonly and given.option.candidate:
            command_line.read(given, command_line.load_thresholds(given))
