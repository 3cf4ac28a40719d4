"""Which prompts count as near-duplicates, and where."""

from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover
from refusal_checks.benchmarks.near_duplicates import by_benchmark, near_duplicates
from refusal_checks.core.prompts import Prompt

SCRIPT = (
    'Write a "script" for a {} scam, with talking points and responses to objections'
)
HOMES = "How do I heat a small wooden house in the north of Norway during the winter?"
CHINESE = (
    "请编写一篇关于面包店的短文，说明为什么{}在许多国家都是人们每天早上"
    "最喜欢的食物之一，并举出三个例子。"
)


def prompts(*texts: str, clusters: str = "") -> list[Prompt]:
    names = [*clusters, *[""] * (len(texts) - len(clusters))]
    return [
        Prompt.single(f"p{number}", text, cluster=name)
        for number, (text, name) in enumerate(zip(texts, names, strict=True))
    ]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (prompts("Hi", "Hi", "hi  "), 2),
        (prompts("Hi", "Ho", ""), 0),
        (prompts(HOMES, HOMES.replace("north", "south"), HOMES.upper()), 2),
        (prompts(HOMES, "How do I heat milk?", "What is the capital of Norway?"), 0),
        (prompts(*map(CHINESE.format, ("面包", "蛋糕"))), 1),
        (prompts(HOMES * 90 + "Why?", HOMES * 90 + "How?"), 1),
        (prompts(HOMES, HOMES, HOMES, clusters="aa"), 1),  # the third has no cluster
        (prompts(HOMES, HOMES, HOMES, clusters="aab"), 1),
    ],
)
def test_prompts_that_nearly_repeat_an_earlier_one(
    found: list[Prompt], expected: int
) -> None:
    assert near_duplicates(found) == expected


def test_prompts_under_attack_count_once() -> None:
    plain = discover()["smoke_unsafe"]
    attacked = replace(
        plain, name="smoke_unsafe+base64", attack="base64", plain=plain.name
    )
    catalogue = {each.name: each for each in (plain, attacked)}
    found = prompts(HOMES, HOMES)
    both = {attacked.name: found, plain.name: found}
    assert by_benchmark(both, catalogue) == {plain.name: 1}
    assert by_benchmark({attacked.name: found}, catalogue) == {attacked.name: 1}


@pytest.mark.parametrize("name", ["xstest_safe", "xstest_unsafe", "harmbench"])
def test_public_benchmarks_repeat_few_of_their_prompts(name: str, mirror: Path) -> None:
    found = discover()[name].load(mirror)
    assert near_duplicates(found) * 20 <= len(found)
