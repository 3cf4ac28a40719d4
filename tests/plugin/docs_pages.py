"""What the README and the pages under ``docs`` hold: commands, code, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.plugin.conftest import ROOT

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.M | re.S
)
_LINK = re.compile(r"\]\((?!\w+:)(?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)\s*$", re.M)
_CODE = re.compile(r"`[^`\n]*`")
_EXIT = re.compile(r"\bexit (?:code )?(\d+)")


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        line: its first line's number in the page.
    """

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command of a ``console`` block.

    Attributes:
        text: as written after the prompt, lines that were broken with ``\\`` made one.
        comment: what stands behind ``#``.
    """

    page: str
    line: int
    text: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def status(self) -> int:
        """The exit code that the page promises: the one it names, 1 where it speaks of failing."""
        found = _EXIT.search(self.comment)
        return int(found[1]) if found else int("fail" in self.comment)


@dataclass(frozen=True)
class Page:
    """The README, or a page under ``docs``."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The page without its blocks of code."""
        return _FENCE.sub("", self.text)

    def blocks(self, language: str) -> Iterator[Block]:
        """The blocks of code of that language, without their indentation."""
        text = self.text
        for found in _FENCE.finditer(text):
            if found["language"] == language:
                body = re.sub(f"^{found['indent']}", "", found["text"], flags=re.M)
                yield Block(language, body, text.count("\n", 0, found.start()) + 2)

    def commands(self) -> Iterator[Command]:
        """What a reader would type; the other lines of the blocks are output."""
        for block in self.blocks("console"):
            lines = iter(enumerate(block.text.splitlines(), block.line))
            for number, line in lines:
                if not line.startswith("$ "):
                    continue
                while line.endswith("\\"):
                    line = line[:-1] + next(lines)[1].strip()
                text, _, comment = line.removeprefix("$ ").partition(" # ")
                yield Command(self.name, number, text.strip(), comment.strip())

    def links(self) -> Iterator[tuple[Path, str]]:
        """Files that the page links to, with the anchors there; empty for none."""
        for found in _LINK.finditer(_CODE.sub("", self.prose)):
            target, _, anchor = found["target"].partition("#")
            yield (self.path.parent / target).resolve() if target else self.path, anchor

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        return {_anchor(found["text"]) for found in _HEADING.finditer(self.prose)}


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def pages() -> list[Page]:
    """All of them, the README first."""
    return [Page(ROOT / "README.md"), *map(Page, sorted((ROOT / "docs").glob("*.md")))]


def page(name: str) -> Page:
    """The page of that name under ``docs``."""
    return Page(ROOT / "docs" / f"{name}.md")


def commands() -> list[Command]:
    """Every command of every page; equal ones once."""
    found: dict[tuple[str, int], Command] = {}
    for one in (command for page in pages() for command in page.commands()):
        found.setdefault((one.text, one.status), one)
    return list(found.values())
