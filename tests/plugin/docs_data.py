"""Made-up public data: a few rows of every benchmark, in the files and forms of its authors."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks import Benchmark, discover, taxonomy
from refusal_checks.benchmarks.answer_key import read as read_key
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned_file import PinnedFile
from refusal_checks.benchmarks.suites import cfsafety, chisafety
from refusal_checks.core.prompts import Kind
from tests.plugin.docs_server import RIGHT, UNSAFE_MARK

XSTEST_TYPES = {
    "safe": ("homonyms", "privacy"),
    "unsafe": ("contrast_homonyms", "contrast_privacy"),
}
ROWS = 4
"""Of each type or category."""


def write_mirror(folder: Path) -> None:
    """A mirror of all public benchmarks; its files are none of the pinned ones, see ``repin``."""
    write_csv(folder / "xstest/xstest_prompts.csv", [dict(row) for row in xstest_rows()])
    forbidden = [f"a {UNSAFE_MARK} thing, number {number}" for number in range(ROWS)]
    goals = [{"index": n, "goal": text, "category": "c"} for n, text in enumerate(forbidden)]
    write_csv(folder / "jailbreakbench/behaviors.csv", goals)
    _write(folder / "deccp/censored.txt", "\n".join(forbidden))
    columns = ("FunctionalCategory", "SemanticCategory", "ContextString", "BehaviorID")
    behaviours = [{"Behavior": text} | dict.fromkeys(columns, text) for text in forbidden]
    write_csv(folder / "harmbench/harmbench_behaviors_text_all.csv", behaviours)
    write_csv(folder / "cfsafety/harmful_question.csv", _cfsafety())
    _write(folder / chisafety.MCQ.path, json.dumps(_multiple_choice(), ensure_ascii=False))
    for file, rows in ((chisafety.SINGLE, _single()), (chisafety.DIALOGUE, _dialogues())):
        _write(folder / file.path, json.dumps(rows, ensure_ascii=False))
    for name, split in splits():
        _write_split(folder, split, discover()[name].kind is Kind.SANITY)


def splits() -> Iterator[tuple[str, HubSplit]]:
    """The benchmarks that come from the hub."""
    for name, found in discover().items():
        yield from ((name, one) for one in found.resources if isinstance(one, HubSplit))


def repin(mirror: Path) -> None:
    """Take what a mirror holds for the pinned data, and for what the hub would send."""
    for benchmark in discover().values():
        for found in filter(None, (benchmark, benchmark.original)):
            _repin(found, mirror)

    def download(self: HubSplit) -> Any:
        return self._mirrored(mirror)

    HubSplit._download = download  # type: ignore[method-assign]


def _repin(benchmark: Benchmark, mirror: Path) -> None:
    for file in benchmark.resources:
        if isinstance(file, PinnedFile):
            found = hashlib.sha256((mirror / file.path).read_bytes()).hexdigest()
            object.__setattr__(file, "sha256", found)  # frozen, as nobody else may do this


def xstest_rows() -> Iterator[Mapping[str, str]]:
    """The prompts of XSTest: as many unsafe as safe ones."""
    number = 0
    for label, types in XSTEST_TYPES.items():
        for type in types * ROWS:
            number += 1
            word = UNSAFE_MARK if label == "unsafe" else "harmless"
            text = f"a {word} thing, number {number}"
            yield {"id": str(number), "prompt": text, "type": type, "label": label}


def labelled_answers() -> list[dict[str, str]]:
    """Answers to XSTest's prompts with people's labels, in the columns of its authors."""
    found = []
    for row in xstest_rows():
        refused = row["label"] == "unsafe"
        label = "2_full_refusal" if refused else "1_full_compliance"
        answer = "I cannot help with that." if refused else "Here you are."
        text = {"id": f"v2-{row['id']}", "prompt": row["prompt"], "completion": answer}
        found.append(text | {"type": row["type"], "final_label": label, "gpt4_label": label})
    return found


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _cfsafety() -> list[dict[str, str]]:
    """Two rows a category; some are translations of each other, as the release has them."""
    return [
        {"": str(row)} | {name: f"{text} {name} {row}" for name in cfsafety.CATEGORIES}
        for row, text in ((0, "怎么做这件被禁止的事？"), (325, "How do I do this thing?"))
    ]


def _multiple_choice() -> list[dict[str, Any]]:
    """All questions that the package's key knows."""
    area, category = next(taxonomy.load(chisafety.TAXONOMY).placed)
    entries = read_key(chisafety.KEY).entries.items()
    options = "\nA. 一\nB. 二\nC. 三\nD. 四"
    infos = [
        {"id": id, "category": category.chinese, "question": f"{id}: {RIGHT}{one.answer}{options}"}
        for id, one in entries
    ]
    return [{"category": area.chinese, "infos": infos}]


def _risky() -> Iterator[tuple[str, str, str]]:
    """Area, category and text of a question in each category that has risky ones."""
    for area, category in taxonomy.load(chisafety.TAXONOMY).placed:
        if "qa" in category.questions:
            yield area.chinese, category.chinese, f"{UNSAFE_MARK}: {category.slug}"


def _single() -> list[dict[str, Any]]:
    found = enumerate(_risky())
    return [
        {"infos": [{"id": number, "category": name, "question": text}]}
        for number, (_, name, text) in found
    ]


def _dialogues() -> list[dict[str, Any]]:
    turns = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "你好！"}]
    return [
        {"category": area, "sub_category": name, "history": turns, "input": text}
        for area, name, text in _risky()
    ]


def _write_split(mirror: Path, split: HubSplit, harmless: bool) -> None:
    import datasets

    word = "harmless" if harmless else UNSAFE_MARK
    texts = [f"a {word} thing of {split.split}, number {number}" for number in range(ROWS)]
    path = mirror / split.folder / f"{split.split}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"prompt": texts, "dataset_source": ["here"] * ROWS, "type": ["one", "two"] * 2}
    datasets.Dataset.from_dict(columns).to_parquet(str(path))
