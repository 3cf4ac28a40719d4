"""Further public sets: read from files of their published columns, with mild rows of our own."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.benchmarks import (
    discover,
    load_prompts,
    table_file,
)
from refusal_checks.benchmarks.suites import wildguard
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Prompt
from tests.support.cases import cases_of
from tests.support.tables import put, put_parquet

CSV = cases_of(__file__)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets benchmarks read files of other bytes than the published ones."""
    monkeypatch.setattr(table_file, "fetch", lambda file, folder: folder / file.path)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CSV)
def test_a_published_table_is_read(name: str, tmp_path: Path) -> None:
    case, benchmark = CSV[name], discover()[name]
    put(tmp_path, case["file"], "\ufeff" + case["text"])
    (prompt,) = load_prompts(benchmark, tmp_path)
    made = {"request": prompt.request, "groups": dict(prompt.groups)}
    made |= {"kind": benchmark.kind, "judge": benchmark.judge}
    assert made == {key: case[key] for key in made}
    assert (prompt.id, benchmark.is_pinned) == (f"{name}-0", True)


WILDGUARD: dict[str, list[Any]] = {
    "prompt": [
        "Skip the queue",
        "Bake a cake",
        "Pretend: skip the queue",
        "Who knows?",
    ],
    "adversarial": [False, False, True, False],
    "response": ["No.", "Yes.", None, None],
    "response_harm_label": [None] * 4,
    "prompt_harm_label": ["harmful", "unharmful", "harmful", None],
    "subcategory": ["fraud", "benign", "fraud", None],
}
TEST = Path("test-00000-of-00001.parquet")


def test_wildguard_s_halves_are_apart_and_unlabelled_prompts_in_neither(
    tmp_path: Path,
) -> None:
    put_parquet(tmp_path / wildguard.WILDGUARD.folder / TEST, WILDGUARD)
    found = {}
    for half, kind in (("unsafe", Kind.SAFETY), ("safe", Kind.SANITY)):
        benchmark = discover()[f"wildguardtest_{half}"]
        assert (benchmark.kind, benchmark.is_gated) == (kind, True)
        found[half] = [
            (prompt.request, *prompt.groups.values())
            for prompt in load_prompts(benchmark, tmp_path)
        ]
    assert found == {
        "unsafe": [
            ("Skip the queue", "fraud", "vanilla"),
            ("Pretend: skip the queue", "fraud", "adversarial"),
        ],
        "safe": [("Bake a cake", "benign", "vanilla")],
    }


def test_the_training_half_of_wildguard_is_not_taken_for_the_test(
    tmp_path: Path,
) -> None:
    folder = tmp_path / wildguard.WILDGUARD.folder
    columns = {name: rows for name, rows in WILDGUARD.items() if name != "subcategory"}
    path = put_parquet(folder / TEST, columns)
    with pytest.raises(DataError, match=r'wildguardmix, test: no column "subcategory"'):
        load_prompts(discover()["wildguardtest_safe"], tmp_path)
    path.rename(folder / "train-0.parquet")
    told = r"no hub/allenai/wildguardmix/wildguardtest/test-\*.* --benchmark NAME` \(accept its"
    with pytest.raises(DataError, match=told):
        load_prompts(discover()["wildguardtest_safe"], tmp_path)


def polyguard_rows() -> dict[str, list[Any]]:
    """Two items in all languages, and one without a label."""
    rows = [
        {
            "id": item,
            "language": language,
            "prompt": f"{language} {item}",
            "prompt_harm_label": ["harmful", "unharmful", None][item],
            "adversarial": False,
            "subcategory": "others",
        }
        for language in wildguard.LANGUAGES
        for item in range(3)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_polyguard_has_a_group_for_each_language_and_a_cluster_for_each_item(
    tmp_path: Path,
) -> None:
    put_parquet(tmp_path / wildguard.POLYGUARD.folder / TEST, polyguard_rows())
    for name, item in (("polyguard_unsafe", "0"), ("polyguard_safe", "1")):
        found = load_prompts(discover()[name], tmp_path)
        languages = Counter(prompt.groups["language"] for prompt in found)
        assert languages == dict.fromkeys(wildguard.LANGUAGES.values(), 1)
        assert {prompt.cluster for prompt in found} == {item}
        assert len({prompt.id for prompt in found}) == 17


PARQUET = "do-not-answer/train-00000-of-00001-6ba0076b818accff.parquet"


QUESTIONS: dict[str, list[Any]] = {
    "id": [1],
    "risk_area": ["Malicious Uses"],
    "types_of_harm": ["Nudging"],
    "specific_harms": ["a"],
    "question": ["How do I cheat at cards?"],
    "GPT4_response": ["No."],
}


@pytest.mark.usefixtures("unchecked")
def test_do_not_answer_is_read_and_graded(tmp_path: Path) -> None:
    put_parquet(tmp_path / PARQUET, QUESTIONS)
    benchmark = discover()["do_not_answer"]
    (prompt,) = load_prompts(benchmark, tmp_path)
    groups = {"area": "Malicious Uses", "category": "Nudging"}
    asked = Prompt.single("do_not_answer-1", "How do I cheat at cards?", **groups)
    assert prompt == replace(asked, kind=Kind.SAFETY)
    assert (benchmark.judge, benchmark.is_pinned) == ("degree", True)
