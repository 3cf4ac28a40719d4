"""What the README and the pages under ``docs`` hold, and how their commands are tried.

Links are checked here as GitHub shows the pages, and by ``mkdocs build --strict`` as the site does.

A gate run is carried out up to where it would start an engine or ask a server; one of
``refusal-checks`` is run where it needs no more than a finished run, else its arguments are parsed.
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
from refusal_checks.evaluation.config import configure
from refusal_checks.plugin.names import CANDIDATE
from refusal_checks.plugin.session import GateSession
from tests.forked import Forked
from tests.plugin.conftest import ROOT

NOT_TRIED = {
    "mkdocs": "`make lint` builds the site",
    "pip install": "needs a package index, and changes this environment",
    "pre-commit": "needs a network",
    "vllm": "needs a real engine",
    "python3 -m venv": "makes an environment",
    ". checks": "enters that environment",
    "cd": "enters a folder",
    "git": "would act on this repository",
    "python -m": "takes minutes, or real engines",
    "refusal-checks report mlflow": "needs mlflow",
    "mike": "publishes the site; needs a remote",
}
"""Commands of which only the shell syntax is checked: the words that they begin with, and why."""

RUN = ("runs", "store", "report html", "baseline")
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
        found = set()
        for heading, inline in zip(self._tokens, self._tokens[1:], strict=False):
            if heading.type == "heading_open":
                texts = (child.content for child in inline.children or ())
                found.add(
                    re.sub(r"[^\w\- ]", "", "".join(texts).lower()).replace(" ", "-")
                )
        return found


def pages() -> list[Page]:
    """All of them, the README first."""
    return [
        Page(ROOT / "README.md"),
        *(Page(ROOT / name) for name in ("CONTRIBUTING.md", "SECURITY.md")),
        *map(Page, sorted((ROOT / "docs").rglob("*.md"))),
    ]


def commands() -> list[Command]:
    """Every command of every page; equal ones once."""
    found: dict[str, Command] = {}
    for one in (command for page in pages() for command in page.commands()):
        found.setdefault(one.text, one)
    return list(found.values())


def subcommands(command: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """The subcommands of ``refusal-checks`` by their full names."""
    command = typer.main.get_command(application()) if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, found in (inner or {}).items():
        yield from subcommands(found, f"{path} {name}".strip())


def check(command: Command, folder: Path) -> None:
    """Try a command in a folder that holds the files that pages name."""
    subprocess.run(["bash", "-n", "-c", command.text], check=True)
    for words in _simple(command.text):
        variables = {}
        while "=" in words[0]:
            name, _, variables[name] = words.pop(0).partition("=")
        for made in _made(words) if words[0] == "make" else [words]:
            _check(made, folder, variables)


def _simple(text: str) -> Iterator[list[str]]:
    """The simple commands of a line, without redirections."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""  # in a URL, # begins no comment
    words: list[str] = []
    redirected = False
    for word in [*lexer, ";"]:
        if not _OPERATORS.fullmatch(word):
            words += [] if redirected else [word]
            redirected = False
        elif not (redirected := word[0] in "<>") and words:
            yield words
            words = []


def _made(words: list[str]) -> Iterator[list[str]]:
    """The pytest commands of gates that make would run; the shell reads all of its commands."""
    done = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        subprocess.run(["bash", "-n", "-c", line], check=True)
        program, *args = shlex.split(line)
        if Path(program).name == "refusal-checks" and args[0] == "gate":
            yield ["refusal-checks", *args]


def _check(words: list[str], folder: Path, variables: dict[str, str]) -> None:
    if any(shlex.join(words).startswith(start) for start in NOT_TRIED):
        return
    assert words[0] in ("pytest", "refusal-checks"), f"{words[0]}: add it to NOT_TRIED"
    if words[0] == "pytest" or words[1] == "gate":
        carry_out([*words, "--collect-only", "-p", __name__], folder, variables)
    elif " ".join(words[1:]).startswith(RUN):
        carry_out(words, folder, variables)
    elif words[1:] != ["--version"]:
        (found,) = [
            (path.split(), command)
            for path, command in subcommands()
            if words[1:][: len(path.split())] == path.split()
        ]
        path, command = found
        command.make_context(" ".join(path), words[1 + len(path) :])


def carry_out(
    words: list[str], folder: Path, variables: Mapping[str, str] | None = None
) -> None:
    """Run a command in a process of its own, and see that it succeeds."""
    files = folder / "stdout", folder / "stderr"
    command = Forked(words, folder, files, {**os.environ, **(variables or {})})
    status = command.wait(300)
    assert status in (0, pytest.ExitCode.NO_TESTS_COLLECTED), (
        f"{words}: {status}\n{command.said}"
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a command that is tried: read the options as a run would before it starts."""
    if hasattr(session.config.option, CANDIDATE):
        gates = GateSession(session.config)
        if gates.spec.candidate.model:
            configure(gates.spec, gates.kept)
