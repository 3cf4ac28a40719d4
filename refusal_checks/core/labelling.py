"""Who gave labels: people, or a model, whose labels are a judge's verdicts like any other."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from refusal_checks.core.text import sanitize

LEAST = 10
"""Fewest labels that give a figure."""

PEOPLE = "people"
"""Who labelled, if no model did."""


def _labeller(written: str) -> str:
    name = sanitize(written.strip(), 80)
    return PEOPLE if name.lower() == PEOPLE else name


Labeller = Annotated[str, AfterValidator(_labeller)]
"""``PEOPLE`` in any letter case, or a model's name; empty if unknown."""


def describe_labeller(labeller: str) -> str:
    """Describe who labelled, or that it is unknown."""
    return (
        f"by {labeller}" if labeller else "by somebody whom labelled_by does not name"
    )


def is_model(labeller: str) -> bool:
    return labeller not in ("", PEOPLE)
