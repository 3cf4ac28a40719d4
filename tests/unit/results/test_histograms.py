"""Histograms of refusal confidence: what is written, and the bins."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.results.histograms import histogram, write

VOTES = [-1.0, -0.6, -0.1, 0.0, 0.1, 0.2, 0.6000000000000001, 0.5999999999999999, 1.0]
"""Of five answers, and of ten, with the last digits that sums of weights leave."""


def test_a_file_has_every_count(tmp_path: Path) -> None:
    votes = histogram("xstest_safe", "sanity", VOTES)
    write(tmp_path, "org/model", votes)
    written = json.loads((tmp_path / "histograms" / "xstest_safe.json").read_bytes())
    bins = [entry["prompts"] for entry in written.pop("bins")]
    assert bins == votes.counts
    assert written == {
        "candidate": "org/model",
        "benchmark": "xstest_safe",
        "kind": "sanity",
        "n": 9,
        "complied": 2,
        "neutral": 3,
        "rejected": 4,
    }


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_every_prompt_is_in_one_bin_and_on_one_side(values: list[float]) -> None:
    found = histogram("b", "safety", values)
    assert sum(found.counts) == found.n == len(values)
    assert found.complied + found.neutral + found.rejected == found.n
