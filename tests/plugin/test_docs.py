"""The documentation: every command runs, every link leads somewhere, everything is named."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from refusal_checks import plugin
from refusal_checks.benchmarks import catalogue, discover
from refusal_checks.cli import application
from refusal_checks.gates import threshold_files
from tests.plugin.docs_commands import Place, check
from tests.plugin.docs_pages import Command, Page, commands, pages
from tests.plugin.docs_project import copied, prepared


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project that holds what the pages name, with a server in place of every model."""
    folder = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        others = ("OPENAI_API_KEY", "PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS")
        for name in (*others, *(name for name in os.environ if name.startswith("REFUSAL_CHECKS_"))):
            patch.delenv(name, raising=False)
        patch.setenv("HF_HOME", str(folder / "hf"))
        with prepared(folder) as found:
            yield found


@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_command_does_what_its_page_says(command: Command, place: Place, tmp_path: Path) -> None:
    check(command, copied(place, tmp_path / "project", command))


_MODELS = "--candidate demo:regressed --judge ORG/JUDGE --thresholds thresholds/smoke.toml"


@pytest.mark.parametrize(
    "text",
    [
        "pytest --no-such-option",
        f"pytest {_MODELS}",
        f"pytest {_MODELS} --candidate-args '--swap \"one'",
        "refusal-checks data pul mirror",
        "no-such-program",
        "make no-such-target",
        "echo 'no end",
    ],
)
def test_a_command_that_does_something_else_is_noticed(
    text: str, place: Place, tmp_path: Path
) -> None:
    command = Command("", 0, text)
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        check(command, copied(place, tmp_path / "project", command))


def test_a_gate_that_the_page_says_fails(place: Place, tmp_path: Path) -> None:
    command = Command("", 0, f"pytest {_MODELS}", "exit 1: it answers what it should refuse")
    check(command, copied(place, tmp_path / "project", command))


def test_commands_are_found_with_their_promises() -> None:
    found = {command.text: command for command in commands()}
    assert len(found) > 30
    regressed = found["make gate CANDIDATE=demo:regressed"]
    assert regressed.page == "README.md"
    assert regressed.status == 1
    assert found["refusal-checks data verify mirror"].status == 0
    assert any("rating_gradient.csv --judge ORG/JUDGE --thresholds" in text for text in found)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_link_leads_to_a_file_and_a_heading(page: Page) -> None:
    for path, anchor in page.links():
        assert path.exists(), f"{page.name} links to {path}"
        if anchor and path.suffix == ".md":
            assert anchor in Page(path).anchors, f"{page.name} links to {path.name}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    readme, *others = pages()
    seen: set[Path] = set()
    ahead = [readme.path.resolve()]
    while ahead:
        path = ahead.pop()
        seen.add(path)
        ahead += [
            to
            for to, _ in Page(path).links()
            if to.suffix == ".md" and to.is_file() and to not in seen
        ]
    assert {page.path.resolve() for page in others} <= seen


def test_every_option_of_pytest_is_documented() -> None:
    parser = pytest.Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    names = {name for group in parser._groups for one in group.options for name in one.names()}
    assert "--candidate" in names
    assert {name for name in names if not _is_named(name)} == set()


def test_every_command_is_documented() -> None:
    known = set(_commands(typer.main.get_command(application())))
    assert "data pull" in known
    assert {name for name in known if not _is_named(name)} == set()


def _commands(command: Any, path: str = "") -> Iterator[str]:
    """The subcommands in full, without the program's name."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
    else:
        for name, found in inner.items():
            yield from _commands(found, f"{path} {name}".strip())


def _is_named(words: str) -> bool:
    """Whether some page names an option or a command, as code."""
    pattern = re.compile(rf"(?<![\w-]){re.escape(words)}(?![\w-])")
    return any(pattern.search(page.text) for page in pages())


TABLES = [
    pytest.param(block.text, id=f"{page.name}:{block.line}")
    for page in pages()
    for block in page.blocks("toml")
    if page.name != "docs/extending.md"  # its benchmarks are not there; see test_extending
]


@pytest.mark.parametrize("text", TABLES)
def test_a_threshold_file_of_a_page_is_one(text: str, tmp_path: Path) -> None:
    if not all(
        isinstance(value, dict) and "min" not in value for value in tomllib.loads(text).values()
    ):
        text = f"[xstest_unsafe]\n{text}"  # the page shows a line of a table
    path = tmp_path / "page.toml"
    path.write_text(text)
    known = discover()
    assert catalogue(threshold_files.load([path], known).tables)


SCRIPTS = [
    pytest.param(block.text, id=f"{page.name}:{block.line}")
    for page in pages()
    for language in ("bash", "sh")
    for block in page.blocks(language)
]


@pytest.mark.parametrize("text", SCRIPTS)
def test_a_script_of_a_page_is_one(text: str) -> None:
    subprocess.run(["bash", "-n", "-c", text], check=True)
