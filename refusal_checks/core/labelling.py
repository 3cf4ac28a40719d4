"""Who gave the labels: people or a model; a model's labels are verdicts like any judge's."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from refusal_checks.core.text import sanitize

LEAST = 10
"""The fewest labels that give a figure."""

PEOPLE = "people"
"""The labeller, if it was not a model."""


def _labeller(written: str) -> str:
    name = sanitize(written.strip(), 80)
    return PEOPLE if name.lower() == PEOPLE else name


Labeller = Annotated[str, AfterValidator(_labeller)]
"""``PEOPLE`` in any letter case, or a model's name; empty if unknown."""


def describe_labeller(labeller: str) -> str:
    """Say who labelled, or that this is unknown."""
    return (
        f"by {labeller}" if labeller else "by somebody whom labelled_by does not name"
    )


def is_model(labeller: str) -> bool:
    return labeller not in ("", PEOPLE)
