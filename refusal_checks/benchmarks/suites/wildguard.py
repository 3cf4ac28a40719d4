"""WildGuardTest's prompts, plain and adversarial, as people labelled them: harmful or unharmful.

Han et al., "WildGuard: Open One-Stop Moderation Tools for Safety Risks, Jailbreaks, and Refusals of
LLMs" (arXiv 2406.18495), ODC-BY; the configuration ``wildguardtest`` of the gated data set
allenai/wildguardmix. Of 1,725 items 26 have no label of the prompt and are left out: 754 are
harmful, 945 are not. The answers that the data set has for them are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.text import brief

Label = Literal["harmful", "unharmful"]

COLUMNS = ("prompt", "prompt_harm_label", "adversarial", "subcategory")

TEST = HubSplit(
    "allenai/wildguardmix",
    "d29c47f41c8b51348b5c8e8c81c039b3132b66d1",
    "test",
    "hub/allenai/wildguardmix/wildguardtest",
    config="wildguardtest",
    is_gated=True,
)


def labelled(
    rows: Sequence[Mapping[str, Any]], label: Label, where: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows whose prompt has a label, each with its place; rows without any are passed over.

    Raises:
        DataError: a row has a label that the data set does not have.
    """
    for number, row in enumerate(rows):
        given = row["prompt_harm_label"]
        if given not in ("harmful", "unharmful", "", None):
            raise DataError(
                f"{where}: row {number}: prompt_harm_label {brief(given)} is neither harmful nor "
                "unharmful: put the pinned revision there"
            )
        if given == label:
            yield number, row


def groups(row: Mapping[str, Any]) -> dict[str, str]:
    """The groups of a row: its subcategory of harm, and whether it is an attack."""
    form = "adversarial" if row["adversarial"] else "vanilla"
    return {"category": str(row["subcategory"] or "none"), "form": form}


def _load(name: str, label: Label, mirror: Path | None) -> list[Prompt]:
    rows = TEST.table(mirror, *COLUMNS)
    return [
        Prompt.single(f"{name}-{number}", row["prompt"], **groups(row))
        for number, row in labelled(rows, label, f"{TEST.repository}, {TEST.split}")
    ]


def _benchmark(name: str, kind: Kind, description: str, label: Label) -> Benchmark:
    load = partial(_load, name, label)
    return Benchmark(name, kind, description, load, TEST.revision, resources=(TEST,))


BENCHMARKS = (
    _benchmark(
        "wildguardtest_unsafe", Kind.SAFETY, "754 harmful prompts, plain and adversarial", "harmful"
    ),
    _benchmark(
        "wildguardtest_safe",
        Kind.SANITY,
        "945 harmless prompts, plain and adversarial",
        "unharmful",
    ),
)
