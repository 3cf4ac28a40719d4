"""Commands, links and code of the README and the pages under ``docs``, and a way to try commands.

A gate run is carried out up to the point where it would start an engine or ask a server. Another
command of ``refusal-checks`` is run if a finished run is enough for it; otherwise only its
arguments are parsed.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token

from refusal_checks.cli import application
from refusal_checks.plugin.configuration import run_folders
from refusal_checks.plugin.options import option_values
from refusal_checks.plugin.session import GateSession
from refusal_checks.run.inputs import read_inputs
from refusal_checks.wording.release import EXIT_CODES
from tests.plugin.conftest import ROOT
from tests.support.forked import Forked

NOT_TRIED = {
    "mkdocs": "`make docs` builds the site",
    "pip install": "needs a package index, and changes this environment",
    "pre-commit": "needs a network",
    "vllm": "needs a real engine",
    "python3 -m venv": "makes an environment",
    ". checks": "enters that environment",
    "cd": "enters a folder",
    "git": "would act on this repository",
    "python -m": "takes minutes, or real engines",
    "refusal-checks report mlflow": "needs mlflow",
    "jq": "need not be installed; tests/unit/models/recordings does the same to the files",
    "mike": "publishes the site; needs a remote",
}
"""Commands of which only the shell syntax is checked: the words that they begin with, and why."""

RUN = ("runs", "report html", "baseline")
"""Commands of ``refusal-checks`` that a finished run is enough for."""

_REPOSITORY = re.compile(
    r"https://github\.com/refusal-checks/refusal-checks/(blob|tree)/main/"
)
_OPERATORS = re.compile(r"[|&;()<>]+")


@dataclass(frozen=True)
class Command:
    """One command of a ``console`` block; lines broken with a backslash are joined."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Page:
    """The README, or a page under ``docs``."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def _tokens(self) -> list[Token]:
        return MarkdownIt("gfm-like", {"linkify": False}).parse(self.text)

    def blocks(self, language: str) -> Iterator[tuple[int, str]]:
        """The blocks of code of that language, with the numbers of their first lines."""
        for token in self._tokens:
            if token.type == "fence" and token.info == language:
                assert token.map
                yield token.map[0] + 2, token.content

    def commands(self) -> Iterator[Command]:
        """What a reader would type; the other lines of the blocks are output."""
        for first, text in self.blocks("console"):
            lines = iter(enumerate(text.splitlines(), first))
            for number, line in lines:
                if not line.startswith("$ "):
                    continue
                while line.endswith("\\"):
                    line = line[:-1] + next(lines)[1].strip()
                yield Command(self.name, number, line[2:].partition(" # ")[0].strip())

    def links(self) -> Iterator[tuple[Path, str]]:
        """Files of this project that the page links to, with the anchors there, which may be ""."""
        for token in self._tokens:
            for child in token.children or ():
                target = str(child.attrs.get("href") or child.attrs.get("src") or "")
                within = _REPOSITORY.match(target)
                if target and (within or not re.match(r"\w+:", target)):
                    path, _, anchor = target[within.end() if within else 0 :].partition(
                        "#"
                    )
                    folder = ROOT if within else self.path.parent
                    yield (folder / path).resolve() if path else self.path, anchor

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        anchors = set()
        for heading, inline in zip(self._tokens, self._tokens[1:], strict=False):
            if heading.type == "heading_open":
                title = "".join(child.content for child in inline.children or ())
                words = re.sub(r"[^\w\- ]", "", title.lower())
                anchors.add(words.replace(" ", "-"))
        return anchors


def pages() -> list[Page]:
    """List all pages, the README first."""
    return [
        Page(ROOT / "README.md"),
        *(Page(ROOT / name) for name in ("CONTRIBUTING.md", "SECURITY.md")),
        *map(Page, sorted((ROOT / "docs").rglob("*.md"))),
    ]


def commands() -> list[Command]:
    """List the commands of all pages; equal ones once."""
    by_text: dict[str, Command] = {}
    for page in pages():
        for command in page.commands():
            by_text.setdefault(command.text, command)
    return list(by_text.values())


def subcommands(command: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the subcommands of ``refusal-checks`` with their full names."""
    if command is None:
        command = typer.main.get_command(application())

    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from subcommands(child, f"{path} {name}".strip())


def check(command: Command, folder: Path) -> None:
    """Try a command in a folder that holds the files that pages name."""
    subprocess.run(["bash", "-n", "-c", command.text], check=True)
    for words in _simple(command.text):
        variables = {}
        while "=" in words[0]:
            name, _, variables[name] = words.pop(0).partition("=")
        _check(words, folder, variables)


def _simple(text: str) -> Iterator[list[str]]:
    """Split a line into simple commands without redirections."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""  # in a URL, # begins no comment
    words: list[str] = []
    redirected = False
    for word in [*lexer, ";"]:
        if _OPERATORS.fullmatch(word):
            redirected = word[0] in "<>"
            if words and not redirected:
                yield words
                words = []
        elif redirected:
            redirected = False  # the name of a file
        else:
            words.append(word)


def _check(words: list[str], folder: Path, variables: dict[str, str]) -> None:
    if any(shlex.join(words).startswith(start) for start in NOT_TRIED):
        return
    if words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True)
        return
    assert words[0] in ("pytest", "refusal-checks"), f"{words[0]}: add it to NOT_TRIED"
    if words[0] == "pytest" or words[1] == "gate":
        carry_out([*words, "--collect-only", "-p", __name__], folder, variables)
    elif " ".join(words[1:]).startswith(RUN):
        carry_out(words, folder, variables)
    elif words[1:] != ["--version"]:
        _parse(words[1:])


def _parse(words: list[str]) -> None:
    """Let the subcommand that the words name parse its arguments."""
    for path, command in subcommands():
        names = path.split()
        if words[: len(names)] == names:
            command.make_context(path, words[len(names) :])
            return
    raise AssertionError(f"no command: {words}")


def carry_out(
    words: list[str], folder: Path, variables: Mapping[str, str] | None = None
) -> None:
    """Run a command in a process of its own, and assert that it succeeds.

    A gate run may be not shown: nothing tests the project's judge.
    """
    files = folder / "stdout", folder / "stderr"
    command = Forked(words, folder, files, {**os.environ, **(variables or {})})
    status = command.wait(300)
    may_be = (0, pytest.ExitCode.NO_TESTS_COLLECTED, EXIT_CODES["unverified"])
    assert status in may_be, f"{words}: {status}\n{command.said}"


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a command that is tried: read the options as a run would before it starts."""
    if option_values(session.config):
        gates = GateSession(session.config)
        if gates.spec.candidate.model:
            read_inputs(gates.spec, run_folders(session.config, gates.spec))
