"""A part of a benchmark keeps its proportions, and is the same every time."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.benchmarks.benchmark import stratified_sample
from refusal_checks.core.prompts import Prompt


def of_sizes(sizes: list[int]) -> list[Prompt]:
    """Prompts of categories of these sizes."""
    return [
        Prompt.single(f"g{group}-{number}", "?", category=f"g{group}")
        for group, size in enumerate(sizes)
        for number in range(size)
    ]


ODD = {
    "one large, many of one": [50] + [1] * 150,
    "all sizes": [7, 5, 3, 2, 1, 1, 1] * 9,
    "pairs beside a giant": [97] + [2] * 13,
}


@pytest.mark.parametrize("sizes", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("limit", [20, 75])
def test_groups_of_any_size_have_their_share_on_average_and_nearly_in_each_part(
    sizes: list[int], limit: int
) -> None:
    whole = of_sizes(sizes)
    large = {f"g{group}" for group, size in enumerate(sizes) if size == max(sizes)}
    share = sum(size for size in sizes if size == max(sizes)) / len(whole)
    found = [
        sum(
            prompt.groups["category"] in large
            for prompt in stratified_sample(whole, limit, seed)
        )
        for seed in range(16)
    ]
    assert sum(found) / len(found) == pytest.approx(share * limit, abs=0.7)
    assert all(abs(count - share * limit) <= 2 + 0.04 * limit for count in found)


def translated(sizes: list[int], alone: int) -> list[Prompt]:
    """Clusters of one category, each in as many languages as said; prompts of another, alone."""
    whole = [
        Prompt.single(
            f"t{number}-{language}",
            "?",
            cluster=f"t{number}",
            category="a",
            language=str(language),
        )
        for number, size in enumerate(sizes)
        for language in range(size)
    ]
    singles = (
        Prompt.single(f"s{n}", "?", category="b", language="0") for n in range(alone)
    )
    return [*whole, *singles]


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 12), max_size=20),
    st.integers(0, 60),
    st.integers(1, 80),
    st.randoms(use_true_random=False),
)
def test_clusters_are_drawn_whole_and_a_larger_part_holds_the_smaller(
    sizes: list[int], alone: int, limit: int, random: Random
) -> None:
    whole = translated(sizes, alone)
    assert stratified_sample(whole, None) == tuple(whole)
    random.shuffle(whole)
    part = stratified_sample(whole, limit)
    drawn = {prompt.id for prompt in part}
    for prompt in part:
        if prompt.cluster:
            assert {p.id for p in whole if p.cluster == prompt.cluster} <= drawn
    largest = max(sizes, default=1)
    assert limit - largest < len(part) or len(part) == len(whole)
    assert part or not whole
    is_one_cluster = len({prompt.cluster or prompt.id for prompt in part}) == 1
    assert len(part) <= limit or is_one_cluster
    assert drawn <= {prompt.id for prompt in stratified_sample(whole, limit + 1)}
    assert drawn == {prompt.id for prompt in stratified_sample(whole[::-1], limit)}
