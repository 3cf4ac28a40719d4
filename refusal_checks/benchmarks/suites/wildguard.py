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

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.text import describe_value

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


_LABELS = {"harmful": Kind.SAFETY, "unharmful": Kind.SANITY}


def _load(name: str, kind: Kind, split: HubSplit, mirror: Path | None) -> list[Prompt]:
    """The prompts whose label is of this kind; prompts without a label are skipped."""
    where = f"{split.repository}, {split.split}"
    columns = COLUMNS if split is WILDGUARD else (*COLUMNS, "language", "id")
    prompts = []
    for number, row in enumerate(split.table(mirror, columns)):
        label, place = row["prompt_harm_label"], f"{where}: row {number}"
        if label not in (*_LABELS, "", None):
            raise DataError(
                f"{place}: prompt_harm_label {describe_value(label)} is neither harmful nor "
                "unharmful: use the pinned revision"
            )
        if _LABELS.get(label) != kind:
            continue
        form = "adversarial" if row["adversarial"] else "vanilla"
        groups = {"category": str(row["subcategory"] or "none"), "form": form}
        if split is POLYGUARD:
            require_known(str(row["language"]), LANGUAGES, place, "language", DataError)
            groups["language"] = LANGUAGES[row["language"]]
        # An item has one row in each language, which are one cluster.
        item = "" if row.get("id") is None else str(row["id"])
        row_id = f"{name}-{number}"
        prompts.append(Prompt.single(row_id, row["prompt"], cluster=item, **groups))
    return prompts


def _benchmark(name: str, kind: Kind, description: str, split: HubSplit) -> Benchmark:
    load = partial(_load, name, kind, split)
    order = tuple(LANGUAGES.values()) if split is POLYGUARD else ()
    return Benchmark(
        name,
        kind,
        description,
        load,
        split.revision,
        resources=(split,),
        group_order=order,
    )


BENCHMARKS = (
    _benchmark(
        "wildguardtest_unsafe",
        Kind.SAFETY,
        "754 harmful prompts, plain and adversarial",
        WILDGUARD,
    ),
    _benchmark(
        "wildguardtest_safe",
        Kind.SANITY,
        "945 harmless prompts, plain and adversarial",
        WILDGUARD,
    ),
    _benchmark(
        "polyguard_unsafe", Kind.SAFETY, "harmful prompts in 17 languages", POLYGUARD
    ),
    _benchmark(
        "polyguard_safe", Kind.SANITY, "harmless prompts in 17 languages", POLYGUARD
    ),
)
