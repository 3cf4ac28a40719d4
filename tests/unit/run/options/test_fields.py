"""A field of the settings is an option: one declaration gives its name, type, help and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from refusal_checks.core.errors import UserError
from refusal_checks.core.settings import Frozen
from refusal_checks.run.options import fields


class Example(Frozen):
    min_p: float = Field(0.05, ge=0, le=1, description="least probability")
    count: int | None = Field(None, ge=1, description="how many")
    words: tuple[str, ...] = Field((), strict=False, description="text")
    file: Path | None = Field(None, description="a file")
    mode: Literal["a", "b"] = Field("a", description="one of two")


def option_group() -> tuple[pytest.Parser, pytest.OptionGroup]:
    parser = pytest.Parser(_ispytest=True)
    group = parser.getgroup("example")
    fields.add(group, Example, "my_")
    return parser, group


def read(*args: str, **values: Any) -> Example:
    parser, _ = option_group()
    given = vars(parser.parse(args))

    class Config:
        getoption = staticmethod(given.__getitem__)

    config: Any = Config()
    return fields.read(config, Example, values, "my_")


def test_every_field_is_declared_with_its_default() -> None:
    _, group = option_group()
    helps = {option.names()[0]: option.attrs()["help"] for option in group.options}
    assert helps == {
        "--my-min-p": "least probability (default: 0.05)",
        "--my-count": "how many",
        "--my-words": "text (repeatable)",
        "--my-file": "a file",
        "--my-mode": "one of two (default: a)",
    }


def test_an_option_wins_over_a_value_that_wins_over_the_default() -> None:
    assert read() == Example()
    assert read(min_p=0.1, count=2) == Example(min_p=0.1, count=2)
    assert read("--my-min-p", "0.2", "--my-words", "x", "--my-words", "y", min_p=0.1) == Example(
        min_p=0.2, words=("x", "y")
    )
    assert read("--my-file", "key.csv", "--my-mode", "b", "--my-count", "3") == Example(
        file=Path("key.csv"), mode="b", count=3
    )


def test_a_value_out_of_range_is_named() -> None:
    with pytest.raises(UserError, match=r"^command line \(--my-\.\.\.\): min_p = 2"):
        read("--my-min-p", "2")
