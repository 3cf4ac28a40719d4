"""Tables of cases that are read best by themselves: a TOML file beside its test."""

import tomllib
from pathlib import Path
from typing import Any


def cases_of(test: str) -> dict[str, Any]:
    """The tables in ``test_x.toml``, by name, for ``test_x.py``."""
    return tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))
