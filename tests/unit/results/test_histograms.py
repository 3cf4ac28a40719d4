"""Histograms of refusal confidence: what is written, what is read, and the bins."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.results.histograms import histogram, read, write

VOTES = [-1.0, -0.6, -0.1, 0.0, 0.1, 0.2, 0.6000000000000001, 0.5999999999999999, 1.0]
"""Of five answers, and of ten, with the last digits that sums of weights leave."""


def test_what_is_written_is_read(
    tmp_path: Path,
) -> None:
    votes = histogram("xstest_safe", "sanity", VOTES)
    write(tmp_path, "org/model", votes)
    assert list(read(tmp_path)) == [votes]
    assert (votes.complied, votes.neutral, votes.rejected) == (2, 3, 4)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_every_prompt_is_in_one_bin_and_on_one_side(values: list[float]) -> None:
    found = histogram("b", "safety", values)
    assert sum(found.counts) == found.n == len(values)
    assert found.complied + found.neutral + found.rejected == found.n
