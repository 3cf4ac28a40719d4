"""CHiSafetyBench's data: published counts, taxonomy, options and dialogues."""

from collections import Counter
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.benchmarks.suites import chisafety
from refusal_checks.core.prompts import Message, Prompt

TAXONOMY = chisafety.taxonomy()


def prompts(name: str, mirror: Path) -> tuple[Prompt, ...]:
    return load_prompts(discover()[name], mirror)


def published(task: str) -> dict[tuple[str, str], int]:
    """The counts of the paper's Table 1, by area and category."""
    return {
        (area["slug"], category["slug"]): category["questions"][task]
        for area in TAXONOMY
        for category in area["categories"]
        if task in category["questions"]
    }


def counted(found: tuple[Prompt, ...]) -> Counter[tuple[str, str]]:
    return Counter(
        (prompt.groups["area"], prompt.groups["category"]) for prompt in found
    )


def test_multiple_choice_has_the_published_counts(mirror: Path) -> None:
    assert counted(prompts("chisafety_mcq", mirror)) == published("mcq")


def test_risky_questions_of_both_histories_have_the_published_counts(
    mirror: Path,
) -> None:
    parts = prompts("chisafety_qa", mirror) + prompts("chisafety_dialogue", mirror)
    assert Counter(prompt.groups["history"] for prompt in parts) == {
        "single": 462,
        "dialogue": 101,
    }
    assert counted(parts) == published("qa")


def test_a_dialogue_becomes_separate_messages() -> None:
    turns = [
        Message("system", "设定"),
        Message("user", "第一问"),
        Message("assistant", "第一答"),
        Message("user", "最后一问"),
    ]
    history = [{"role": turn.role, "content": turn.content} for turn in turns[:-1]]
    row = {"sub_category": "健康歧视内容", "input": "最后一问", "history": history}
    (prompt,) = chisafety.dialogue_prompts([row])
    assert prompt.id == "dialogue-1"
    assert prompt.groups["category"] == "health_discrimination"
    assert prompt.messages == tuple(turns)


OPTIONS = {
    "问？\nA. 是\nB. 否": {"A": "是", "B": "否"},
    "问？ \nA .是\nB .否": {"A": "是", "B": "否"},
    "问？\nA、甲 B、乙\nC、丙": {"A": "甲", "B": "乙", "C": "丙"},
    "问？   A. 是\nB. 否": {"A": "是", "B": "否"},
    "A公司侵权吗？\nA：是\nB：否": {"A": "是", "B": "否"},
    "问\nA.甲\nB.乙\nC丙\nD.丁": {"A": "甲", "B": "乙", "C": "丙", "D": "丁"},
    "甲、乙\nA．B公司\nB．A公司  \n": {"A": "B公司", "B": "A公司"},
}


@pytest.mark.parametrize("question", OPTIONS)
def test_options_are_read_from_the_question(question: str) -> None:
    assert chisafety.parse_options(question) == OPTIONS[question]


def test_every_question_has_options_and_a_stem(mirror: Path) -> None:
    found = prompts("chisafety_mcq", mirror)
    assert Counter(len(prompt.options) for prompt in found) == {2: 1186, 3: 42, 4: 339}
    for prompt in found:
        assert list(prompt.options) == list("ABCD"[: len(prompt.options)])
        assert not prompt.request.startswith("A.")
