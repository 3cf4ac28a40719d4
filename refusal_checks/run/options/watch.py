"""The option ``--watch``: a local page about the run."""

from __future__ import annotations

import pytest


def add(group: pytest.OptionGroup) -> None:
    """Declare the option."""
    group.addoption(
        "--watch",
        action="store_true",
        help="serve a page on 127.0.0.1 with progress, answers, verdicts and figures as they come; "
        "its address is printed (`refusal-checks watch` does so from another terminal)",
    )
