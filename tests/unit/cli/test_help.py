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


@pytest.mark.parametrize("name", ALL)
def test_a_command_and_its_parameters_say_what_they_are(name: str) -> None:
    first = (ALL[name].help or "").partition("\n\n")[0].strip()
    assert first.endswith(".")
    assert "\n" not in first
    assert len(first) <= LONGEST
    for parameter in ALL[name].params:
        words = getattr(parameter, "help", None) or ""
        assert words.endswith("."), f"{name} {parameter.name}: {words}"
