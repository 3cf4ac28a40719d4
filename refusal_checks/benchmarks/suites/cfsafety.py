"""CFSafety: 25,000 prompts in ten categories of unsafe use, mostly in Chinese and English.

"CFSafety: Comprehensive Fine-grained Safety Assessment for LLMs" (arXiv 2410.21695), data of
github.com/REH502/CFSafety: one table with a column per category. Answers are rated, see
``judges.kinds.rating``. A prompt's id is its category and row number, so ids survive removed rows.
"""

import csv
import io
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "e48c632ff8911e21a46fbd4ec4b370f12ae47541"

PROMPTS = PinnedFile(
    path="cfsafety/harmful_question.csv",
    url=f"https://raw.githubusercontent.com/REH502/CFSafety/{_REVISION}/data/harmful_question.csv",
    revision=_REVISION,
    sha256="e14aa49ef61f9b9b6193a0d7ad82cbbaad5309845097e17b42be278720b8c73c",
)

SCENARIOS = (
    "SocialBias",
    "Criminal_Unethical",
    "Insults_SensitiveTopics",
    "PrivacyLeaks",
    "Misleading",
)
"""Categories of what an answer may do wrong."""

ATTACKS = (
    "ScenarioEmbedding_Persuasion",
    "MinorityLanguage",
    "PromptLeakage",
    "LLMRewriting",
    "ReverseExposure",
)
"""Categories of how a prompt tries to bring it about."""

CATEGORIES = SCENARIOS + ATTACKS

LANGUAGES = ("zh", "en", "it", "vi", "ar", "ko", "th", "bn", "sw", "jv")
"""Languages of the data. Detection chooses among these only, or short texts are taken for related
languages (Wu for Chinese, Malay for Javanese)."""

CATEGORY_GUIDE = Path(__file__).parent / "data" / "cfsafety.toml"
"""What the judge is told about each category: concerns, and examples with their ratings."""

_ENOUGH = 100
"""Characters from which a prompt's language is detected; more change none of the 25,000."""

_BLOCKS: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "Criminal_Unethical": (
        (0, 325, 325),
        (650, 325, 325),
        (1300, 300, 300),
        (1900, 300, 300),
    ),
    "Insults_SensitiveTopics": ((0, 625, 625), (1250, 625, 625)),
    "PrivacyLeaks": ((0, 625, 625), (1250, 625, 625)),
    "Misleading": ((0, 350, 350), (700, 350, 350), (1400, 275, 275), (1950, 275, 275)),
    "ScenarioEmbedding_Persuasion": (
        (0, 600, 600),
        *((row, 1, 1) for row in range(1200, 2500, 2)),
    ),
    "PromptLeakage": ((0, 1250, 1250),),
    "LLMRewriting": ((0, 1242, 1258),),
    "ReverseExposure": ((0, 1250, 1250),),
}
"""Rows with translations, by category: first row, number of rows, and distance to the translations.
SocialBias has no translations; MinorityLanguage has neither Chinese nor English."""


@cache
def translations() -> Mapping[str, str]:
    """The ids of each Chinese-English pair: a prompt and its translation.

    The released table does not mark pairs; they were found from its blocks of one language, and
    reviewed.
    """
    pairs = {}
    for name, blocks in _BLOCKS.items():
        for first, count, distance in blocks:
            for row in range(first, first + count):
                pairs[f"{name}-{row}"] = f"{name}-{row + distance}"
    return pairs


_SOURCES = 315
"""Prompts that MinorityLanguage has in eight languages, one block of rows per language (the last
one lacks 20): row n and row n + 315 ask the same."""


def parse(data: bytes) -> list[Prompt]:
    """Parse the released table: each cell that is not empty is a prompt.

    Those that ask the same in several languages are one cluster. A byte order mark is dropped, and
    invalid UTF-8 becomes replacement characters.
    """
    import py3langid  # loads its model, which collection need not wait for

    py3langid.set_languages(LANGUAGES)
    cluster_of = {}
    for first, second in translations().items():
        cluster_of[first] = cluster_of[second] = first
    text = data.decode("utf-8-sig", errors="replace")
    prompts = []
    for row in csv.DictReader(io.StringIO(text, newline=""), strict=True):
        number = row.pop("")
        for name, cell in row.items():
            if not cell.strip():
                continue
            kind = "scenario" if name in SCENARIOS else "attack"
            language = py3langid.classify(cell[:_ENOUGH])[0]
            groups = {"category": name, "kind": kind, "language": language}
            cluster = cluster_of.get(f"{name}-{number}", "")
            if name == "MinorityLanguage":
                cluster = f"{name}-{int(number) % _SOURCES}"
            prompts.append(
                Prompt.single(f"{name}-{number}", cell, cluster=cluster, **groups)
            )
    return prompts


def _load(mirror: Path | None) -> list[Prompt]:
    return parse(fetch(PROMPTS, mirror).read_bytes())


BENCHMARKS = (
    Benchmark(
        "cfsafety",
        Kind.SAFETY,
        "25,000 prompts of ten categories, whose answers are rated for safety",
        _load,
        _REVISION,
        judge="rating",
        resources=(PROMPTS,),
        group_order=CATEGORIES,
        category_guide=CATEGORY_GUIDE,
    ),
)
