"""WildGuardTest's prompts, plain and adversarial; and PolyGuard's, the same in 17 languages.

WildGuardTest: Han et al., "WildGuard: Open One-Stop Moderation Tools for Safety Risks, Jailbreaks,
and Refusals of LLMs" (arXiv 2406.18495), ODC-BY; the configuration ``wildguardtest`` of the gated
data set allenai/wildguardmix. Of 1,725 items, which people labelled harmful or unharmful, 26 have
no label of the prompt and are left out: 754 are harmful, 945 are not. The answers that the data set
has for them are not used.

PolyGuardPrompts: Kumar et al., "PolyGuard: A Multilingual Safety Moderation Tool for 17 Languages"
(arXiv 2504.04377), CC-BY-4.0: translations by machine, checked by people. All translations of an
item are one cluster. The English part is WildGuardTest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.text import brief

Label = Literal["harmful", "unharmful"]

COLUMNS = ("prompt", "prompt_harm_label", "adversarial", "subcategory")

WILDGUARD = HubSplit(
    "allenai/wildguardmix",
    "d29c47f41c8b51348b5c8e8c81c039b3132b66d1",
    "test",
    "hub/allenai/wildguardmix/wildguardtest",
    config="wildguardtest",
    is_gated=True,
)


POLYGUARD = HubSplit(
    "ToxicityPrompts/PolyGuardPrompts",
    "c5b466a95b64ff121db4398246b6abb7672696ec",
    "test",
    "hub/ToxicityPrompts/PolyGuardPrompts",
)

LANGUAGES: Mapping[str, str] = {
    "Arabic": "ar",
    "Chinese": "zh",
    "Czech": "cs",
    "Dutch": "nl",
    "English": "en",
    "French": "fr",
    "German": "de",
    "Hindi": "hi",
    "Italian": "it",
    "Japanese": "ja",
    "Korean": "ko",
    "Polish": "pl",
    "Portuguese": "pt",
    "Russian": "ru",
    "Spanish": "es",
    "Swedish": "sv",
    "Thai": "th",
}
"""Groups ``language`` by the names that the data set has."""


def labelled(
    rows: Sequence[Mapping[str, Any]], label: Label, where: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows whose prompt has a label, each with its place; rows without any are passed over."""
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


def _wildguard(name: str, label: Label, mirror: Path | None) -> list[Prompt]:
    rows = WILDGUARD.table(mirror, *COLUMNS)
    return [
        Prompt.single(f"{name}-{number}", row["prompt"], **groups(row))
        for number, row in labelled(rows, label, f"{WILDGUARD.repository}, {WILDGUARD.split}")
    ]


def _polyguard(name: str, label: Label, mirror: Path | None) -> list[Prompt]:
    where = f"{POLYGUARD.repository}, {POLYGUARD.split}"
    rows = POLYGUARD.table(mirror, *COLUMNS, "language", "id")
    prompts = []
    for number, row in labelled(rows, label, where):
        known = f"{where}: row {number}"
        require_known(str(row["language"]), LANGUAGES, known, "language", DataError)
        language = LANGUAGES[row["language"]]
        item = "" if row["id"] is None else str(row["id"])  # of its rows in all languages
        more = {"language": language, **groups(row)}
        prompts.append(Prompt.single(f"{name}-{number}", row["prompt"], cluster=item, **more))
    return prompts


_Load = Callable[[str, Label, Path | None], list[Prompt]]


def _benchmark(
    name: str, kind: Kind, description: str, split: HubSplit, load: _Load, label: Label
) -> Benchmark:
    rows, order = partial(load, name, label), LANGUAGES.values() if split is POLYGUARD else ()
    return Benchmark(
        name,
        kind,
        description,
        rows,
        split.revision,
        resources=(split,),
        group_order=tuple(order),
    )


BENCHMARKS = (
    _benchmark(
        "wildguardtest_unsafe",
        Kind.SAFETY,
        "754 harmful prompts, plain and adversarial",
        WILDGUARD,
        _wildguard,
        "harmful",
    ),
    _benchmark(
        "wildguardtest_safe",
        Kind.SANITY,
        "945 harmless prompts, plain and adversarial",
        WILDGUARD,
        _wildguard,
        "unharmful",
    ),
    _benchmark(
        "polyguard_unsafe",
        Kind.SAFETY,
        "harmful prompts in 17 languages",
        POLYGUARD,
        _polyguard,
        "harmful",
    ),
    _benchmark(
        "polyguard_safe",
        Kind.SANITY,
        "harmless prompts in 17 languages",
        POLYGUARD,
        _polyguard,
        "unharmful",
    ),
)
