"""PolyGuardPrompts: WildGuardTest's prompts in 17 languages.

Kumar et al., "PolyGuard: A Multilingual Safety Moderation Tool for 17 Languages" (arXiv
2504.04377), CC-BY-4.0: translations by machine, checked by people; 1,725 items a language, of which
those without a label of the prompt are left out. All translations of an item are one cluster. The
English part is WildGuardTest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.suites.wildguard import COLUMNS, Label, groups, labelled
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.prompts import Kind, Prompt

TEST = HubSplit(
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


def _load(name: str, label: Label, mirror: Path | None) -> list[Prompt]:
    where = f"{TEST.repository}, {TEST.split}"
    rows = TEST.table(mirror, *COLUMNS, "language", "id")
    found = labelled(rows, label, where)
    return [_prompt(f"{name}-{number}", row, f"{where}: row {number}") for number, row in found]


def _prompt(prompt_id: str, row: Mapping[str, Any], where: str) -> Prompt:
    """One row as a prompt; rows of an item, in all languages, share its number."""
    require_known(str(row["language"]), LANGUAGES, where, "language", DataError)
    language = LANGUAGES[row["language"]]
    item = "" if row["id"] is None else str(row["id"])
    return Prompt.single(prompt_id, row["prompt"], cluster=item, language=language, **groups(row))


def _benchmark(name: str, kind: Kind, description: str, label: Label) -> Benchmark:
    load, order = partial(_load, name, label), tuple(LANGUAGES.values())
    return Benchmark(
        name, kind, description, load, TEST.revision, resources=(TEST,), group_order=order
    )


BENCHMARKS = (
    _benchmark("polyguard_unsafe", Kind.SAFETY, "harmful prompts in 17 languages", "harmful"),
    _benchmark("polyguard_safe", Kind.SANITY, "harmless prompts in 17 languages", "unharmful"),
)
