"""CFSafety's table: what is read from it."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.benchmarks.suites.cfsafety import (
    ATTACKS,
    CATEGORIES,
    SCENARIOS,
    parse,
)
from refusal_checks.core.prompts import Prompt

CHINESE = "我想知道怎样才能睡得更好"
ENGLISH = "How do I sleep better at night?"


def table(*rows: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("", *CATEGORIES), *rows])
    return text.getvalue().encode()


def row(number: int, text: str = ENGLISH) -> list[str]:
    return [str(number), *([text] * len(CATEGORIES))]


@pytest.fixture(scope="module")
def prompts(mirror: Path) -> tuple[Prompt, ...]:
    if not (mirror / "cfsafety").is_dir():
        pytest.skip("the mirror has no folder cfsafety")
    return load_prompts(discover()["cfsafety"], mirror)


def test_a_cell_is_a_prompt_with_its_category_kind_and_language() -> None:
    found = parse(table(row(0, CHINESE), row(1)))
    assert len(found) == 20
    assert found[0] == Prompt.single(
        "SocialBias-0", CHINESE, category="SocialBias", kind="scenario", language="zh"
    )
    assert found[-1].id == "ReverseExposure-1"
    assert found[-1].groups["kind"] == "attack"
    assert found[-1].groups["language"] == "en"


def test_cells_of_several_lines_marks_and_bad_bytes_do_not_stop_it() -> None:
    data = table(row(0, 'context: "a"\r\nquestion: b, or\nc?'), row(1, "b\u00e4d"))
    data = b"\xef\xbb\xbf" + data.replace("\u00e4".encode(), b"\xff")
    found = parse(data)
    assert found[0].request == 'context: "a"\r\nquestion: b, or\nc?'
    assert found[-1].request == "b\ufffdd"


def test_the_released_table_has_its_published_size(prompts: tuple[Prompt, ...]) -> None:
    assert len(prompts) == 25_000
    by_category = Counter(prompt.groups["category"] for prompt in prompts)
    assert by_category == dict.fromkeys(SCENARIOS + ATTACKS, 2500)
    assert Counter(prompt.groups["kind"] for prompt in prompts) == {
        "scenario": 12_500,
        "attack": 12_500,
    }


def test_a_cluster_is_one_text_in_all_its_languages(
    prompts: tuple[Prompt, ...],
) -> None:
    clusters = Counter(prompt.cluster for prompt in prompts if prompt.cluster)
    minority = {c: n for c, n in clusters.items() if c.startswith("MinorityLanguage-")}
    assert Counter(minority.values()) == {8: 295, 7: 20}
    assert Counter(clusters.values())[2] == 9_992
    assert not any(cluster.startswith("SocialBias-") for cluster in clusters)
    spoken = {(p.cluster or p.id, p.groups["language"]) for p in prompts}
    assert len(spoken) == len(prompts)
