"""The options on how fast servers that others run are asked; ``config.Limits`` has their values."""

from __future__ import annotations

import pytest

from refusal_checks.core.settings import CONNECTIONS

ROLES = ("candidate", "judge")


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    for role in ROLES:
        group.addoption(
            f"--{role}-rpm",
            metavar="N",
            type=float,
            help=f"most requests a minute to the {role}'s server, where it is one that others run",
        )
        group.addoption(
            f"--{role}-concurrency",
            metavar="N",
            type=int,
            help=f"most requests at one time to the {role}'s server ({CONNECTIONS})",
        )
