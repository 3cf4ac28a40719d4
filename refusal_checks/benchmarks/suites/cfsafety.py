"""CFSafety: 25,000 prompts of ten categories of unsafe use, mostly Chinese and English.

"CFSafety: Comprehensive Fine-grained Safety Assessment for LLMs" (arXiv 2410.21695), data of
github.com/REH502/CFSafety: one table with a column per category. Answers are rated, see
``judges.kinds.rating``. A prompt's id is its category and row number, so ids survive removed rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.errors import DataError
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
"""Categories by what an answer may do wrong."""

ATTACKS = (
    "ScenarioEmbedding_Persuasion",
    "MinorityLanguage",
    "PromptLeakage",
    "LLMRewriting",
    "ReverseExposure",
)
"""Categories by how a prompt tries to bring it about."""

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
    """The ids of each Chinese-English pair: first prompt and translation.

    The released table does not mark pairs; they were found from its blocks of one language, and
    reviewed.
    """
    return {
        f"{name}-{row}": f"{name}-{row + distance}"
        for name, blocks in _BLOCKS.items()
        for first, count, distance in blocks
        for row in range(first, first + count)
    }


_SOURCES = 315
"""Prompts that MinorityLanguage has in eight languages, one block of rows per language (the last
one lacks 20): row n and row n + 315 ask the same."""


@cache
def _pairs() -> Mapping[str, str]:
    """The first id of each Chinese-English pair, by both ids."""
    return {name: first for first, second in translations().items() for name in (first, second)}


def source(prompt_id: str) -> str:
    """The id of the first prompt with the same text in any language; empty without translations."""
    name, _, row = prompt_id.rpartition("-")
    if name == "MinorityLanguage" and row.isdecimal():
        return f"{name}-{int(row) % _SOURCES}"
    return _pairs().get(prompt_id, "")


def category(prompt_id: str) -> str:
    """The category of a prompt, from its id."""
    return prompt_id.rpartition("-")[0]


def parse(data: bytes, where: str) -> list[Prompt]:
    """The prompts of the released table.

    A byte order mark is dropped, invalid UTF-8 becomes replacement characters, cells may span
    lines, and empty cells are skipped.

    Raises:
        DataError: a column is unknown or missing, a row has more or fewer cells than the header,
            or the text is not CSV; names the place.
    """
    import py3langid  # loads its model, which collection need not wait for

    py3langid.set_languages(LANGUAGES)
    text = data.decode("utf-8-sig", errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = _header(reader, where)
    prompts = []
    for line, row in _rows(reader, len(header) + 1, where):
        for name, cell in zip(header, row[1:], strict=True):
            if cell.strip():
                language = py3langid.classify(cell[:_ENOUGH])[0]
                prompts.append(_prompt(f"{name}-{row[0] or line}", name, cell, language))
    return prompts


def _header(reader: Iterator[list[str]], where: str) -> Sequence[str]:
    header = next(reader, [])[1:]
    unknown = [name for name in header if name not in CATEGORIES]
    missing = [name for name in CATEGORIES if name not in header]
    if unknown or missing or len(header) != len(CATEGORIES):
        wrong = [f"unknown column {name!r}" for name in unknown]
        wrong += [f"no column {name}" for name in missing]
        raise DataError(
            f"{where}: {', '.join(wrong) or 'a column twice'}; "
            f"expected a column of row numbers and {', '.join(CATEGORIES)}"
        )
    return header


def _rows(
    reader: Iterator[list[str]], width: int, where: str
) -> Iterator[tuple[int, Sequence[str]]]:
    number = 0
    try:
        for number, row in enumerate(reader):
            if len(row) != width:
                raise DataError(
                    f"{where}: row {number} (number {(row or [''])[0][:20]!r}) has {len(row)} "
                    f"cells, expected {width}"
                )
            yield number, row
    except csv.Error as fault:
        raise DataError(f"{where}: not valid CSV after row {number}: {fault}") from None


def _prompt(prompt_id: str, category: str, text: str, language: str) -> Prompt:
    kind = "scenario" if category in SCENARIOS else "attack"
    groups = {"category": category, "kind": kind, "language": language}
    return Prompt.single(prompt_id, text, cluster=source(prompt_id), **groups)


@cache
def published() -> Mapping[str, Mapping[str, float]]:
    """The paper's mean scores by model and category: arXiv 2410.21695, to four decimals.

    Use it for orientation only: the authors' judge (gpt-3.5-turbo), its instructions, its limit of
    100 characters per answer and the prompts (the first 500 rows of each category, so one or two
    languages) differ from a run here. The item scores that they released do not average to this
    table either: GPT4 is 4.018 here and 4.068 there (SocialBias 4.20 and 4.83, MinorityLanguage
    3.88 and 3.50), GPT3.5 3.821 and 3.976, Llama2 2.883 and 3.054; some items exceed the scale's 5.
    """
    text = (Path(__file__).parent / "data" / "cfsafety_published.csv").read_text(encoding="utf-8")
    return {
        row.pop("model"): {name: float(score) for name, score in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    }


def _load(mirror: Path | None) -> list[Prompt]:
    path = fetch(PROMPTS, mirror)
    return parse(path.read_bytes(), str(path))


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
