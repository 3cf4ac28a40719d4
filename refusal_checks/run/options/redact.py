"""The option ``--redact``, which keeps texts out of everything that a run shows."""

from __future__ import annotations

import os

import pytest

VARIABLE = "REFUSAL_CHECKS_REDACT"
"""Environment variable that redacts as ``--redact`` does."""


def add(group: pytest.OptionGroup) -> None:
    """Declare the option."""
    group.addoption(
        "--redact",
        action="store_true",
        help=f"show ids, hashes and lengths instead of prompts, answers and rationales; the texts "
        f"stay in the store (${VARIABLE}=1)",
    )


def is_wanted(option: bool) -> bool:
    """True if the option or the variable asks to show no texts."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    return option or value not in ("", "0", "false", "no")
