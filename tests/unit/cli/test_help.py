"""Every command and every parameter says what it is, in a line that a list of commands holds."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from refusal_checks.cli import application

LONGEST = 100
"""Characters of what a command says of itself first."""


def commands(command: Any, name: str = "refusal-checks") -> Iterator[tuple[str, Any]]:
    """All commands, by what is typed for them."""
    yield name, command
    for inner, found in getattr(command, "commands", {}).items():
        yield from commands(found, f"{name} {inner}")


ALL = dict(commands(typer.main.get_command(application())))

each_command = pytest.mark.parametrize("name", ALL)


def test_the_commands_are_found() -> None:
    assert {"refusal-checks doctor", "refusal-checks batch export"} <= ALL.keys()


@each_command
def test_a_command_says_what_it_does_in_one_line(name: str) -> None:
    first = (ALL[name].help or "").partition("\n\n")[0].strip()
    assert first
    assert first.endswith(".")
    assert "\n" not in first
    assert len(first) <= LONGEST


@each_command
def test_every_parameter_says_what_it_is(name: str) -> None:
    for parameter in ALL[name].params:
        words = getattr(parameter, "help", None)
        assert words, f"{name}: {parameter.name}"
        assert words.endswith("."), f"{name} {parameter.name}: {words}"
