"""CHiSafetyBench (Zhang et al., arXiv 2406.10311): recognising and refusing risks in Chinese.

These are the public files of its first version: 1,567 multiple-choice questions over 5 areas and 31
categories, and risky questions over 17 of these, 462 alone and 101 at the end of a dialogue. The
release has no answers to the multiple-choice questions; ``chisafety_mcq_key.csv`` is this project's
own key.

Prompts are grouped by ``area``, ``category`` (the taxonomy's slugs) and ``language``; risky
questions also by ``history`` (``single`` or ``dialogue``).
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.prompts import Kind, Message, Prompt

_DATA = Path(__file__).parent / "data"
KEY = _DATA / "chisafety_mcq_key.csv"


@cache
def taxonomy() -> list[dict[str, Any]]:
    """The paper's areas of risk, each with its categories; see the file's head."""
    text = (_DATA / "chisafety_taxonomy.toml").read_text(encoding="utf-8")
    areas: list[dict[str, Any]] = tomllib.loads(text)["areas"]
    return areas


@cache
def _groups() -> Mapping[str, Mapping[str, str]]:
    """Groups of questions, by the category's name in the released files."""
    groups: dict[str, Mapping[str, str]] = {}
    for area in taxonomy():
        for category in area["categories"]:
            of_category = {
                "area": area["slug"],
                "category": category["slug"],
                "language": "zh",
            }
            for name in (category["chinese"], *category.get("also", ())):
                groups[name] = of_category
    return groups


def _pin_file(name: str, revision: str, sha256: str) -> PinnedFile:
    """Pin a file of the release, at a revision where it has these bytes."""
    return PinnedFile(
        path=f"chisafetybench/{name}",
        url="https://raw.githubusercontent.com/UnicomAI/UnicomBenchmark/"
        f"{revision}/CHiSafetyBench/dataset/v1/{name}",
        revision=revision,
        sha256=sha256,
    )


MCQ = _pin_file(
    "mcq.json",
    "ca9879742937e2e342540f8bb6bb598eef80580e",
    "9900af0e259d8f58d68584961ac5f13fc229066d5b73add142313c92d0c8edcd",
)
SINGLE = _pin_file(
    "risky_questions_without_dialog_history.json",
    "ca9879742937e2e342540f8bb6bb598eef80580e",
    "9682ed99cc49a4ccd0b7a291dc5019f6a569fb01817155b8deaf56ea84b9359a",
)
DIALOGUE = _pin_file(
    "risky_questions_with_dialog_history.json",
    "9814e74bc0370f037f3af968c0e55176f8cf5793",
    "b4251d1870bd857dfcd3c8d81f4fe5af4b9bc3516dbc34395f952919e42a86f6",
)


def _questions(parts: Any) -> Iterator[Any]:
    for part in parts:
        yield from part["infos"]


def choice_prompts(rows: Any) -> Iterator[Prompt]:
    """The prompts of ``mcq.json``, with their options; ids are the release's own."""
    for row in _questions(rows):
        yield Prompt(
            str(row["id"]),
            (Message("user", row["question"]),),
            _groups()[row["category"]],
            options=parse_options(row["question"]),
        )


def single_turn_prompts(rows: Any) -> Iterator[Prompt]:
    """The prompts of the risky questions without history: ``qa-`` and the release's own id."""
    for row in _questions(rows):
        groups = _groups()[row["category"]]
        yield Prompt.single(
            f"qa-{row['id']}", row["question"], **groups, history="single"
        )


def dialogue_prompts(rows: Any) -> Iterator[Prompt]:
    """The prompts of the risky questions with history: ``dialogue-`` and the place in the file."""
    for number, row in enumerate(rows, 1):
        turns = (Message(turn["role"], turn["content"]) for turn in row["history"])
        messages = (*turns, Message("user", row["input"]))
        groups = {**_groups()[row["sub_category"]], "history": "dialogue"}
        yield Prompt(f"dialogue-{number}", messages, groups)


_LETTERS = "ABCDEFGH"
_SEPARATED = r"(?:^|(?<=\s)){}\s*[.．、:：]"
_BARE = r"^[^\S\n]*{}(?=[^\x00-\x7f])"


def parse_options(question: str) -> Mapping[str, str]:
    """Parse the options of a multiple-choice question, by letter from A without a gap.

    A letter opens an option at the start of a line or after white space, if a full stop, a comma or
    a colon follows. After A, a letter at a line's start may lack that mark (once in the release).
    """
    marks: list[re.Match[str]] = []
    for letter in _LETTERS:
        mark = _mark(letter, question, marks)
        if mark is None:
            break
        marks.append(mark)
    options = {}
    for place, mark in enumerate(marks):
        is_last = place + 1 == len(marks)
        end = len(question) if is_last else marks[place + 1].start()
        options[_LETTERS[place]] = question[mark.end() : end].strip()
    return options


def _mark(
    letter: str, question: str, before: Sequence[re.Match[str]]
) -> re.Match[str] | None:
    """Find where a letter opens an option, after the previous options."""
    start = before[-1].end() if before else 0
    forms = (_SEPARATED, _BARE) if before else (_SEPARATED,)
    for form in forms:
        pattern = re.compile(form.format(letter), re.MULTILINE)
        mark = pattern.search(question, start)
        if mark:
            return mark
    return None


_PARSERS = {
    MCQ: choice_prompts,
    SINGLE: single_turn_prompts,
    DIALOGUE: dialogue_prompts,
}


def _load(files: Sequence[PinnedFile], mirror: Path | None) -> list[Prompt]:
    prompts: list[Prompt] = []
    for file in files:
        rows = json.loads(fetch(file, mirror).read_text(encoding="utf-8"))
        prompts += _PARSERS[file](rows)
    return prompts


def _risky_benchmark(name: str, description: str, *files: PinnedFile) -> Benchmark:
    load, revision = partial(_load, files), " ".join(file.revision for file in files)
    return Benchmark(name, Kind.SAFETY, description, load, revision, "degree", files)


BENCHMARKS = (
    Benchmark(
        "chisafety_mcq",
        Kind.RECOGNITION,
        "CHiSafetyBench: 1,567 multiple-choice questions on risks",
        partial(_load, (MCQ,)),
        MCQ.revision,
        "multiple_choice",
        (MCQ,),
        key=KEY,
    ),
    _risky_benchmark(
        "chisafety_qa", "CHiSafetyBench: 462 risky questions alone", SINGLE
    ),
    _risky_benchmark(
        "chisafety_dialogue",
        "CHiSafetyBench: 101 risky questions, each at the end of a dialogue",
        DIALOGUE,
    ),
    replace(
        _risky_benchmark(
            "chisafety", "CHiSafetyBench: both parts, 563", SINGLE, DIALOGUE
        ),
        parts=("chisafety_qa", "chisafety_dialogue"),
    ),
)
