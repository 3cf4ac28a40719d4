"""Histograms of refusal confidence: two files a benchmark, which say the same."""

import csv
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.results.histograms import BINS, FOLDER, histogram, write

VOTES = [-1.0, -0.6, -0.1, 0.0, 0.1, 0.2, 0.6000000000000001, 0.5999999999999999, 1.0]
"""Of five answers, and of ten, with the last digits that sums of weights leave."""


def test_the_files_hold_the_same_bins(tmp_path: Path) -> None:
    write(tmp_path, "org/model", histogram("xstest_safe", "sanity", VOTES))
    folder = tmp_path / FOLDER
    names = [f"xstest_safe{end}" for end in (".csv", ".json")]
    assert sorted(path.name for path in folder.iterdir()) == names
    found = json.loads((folder / "xstest_safe.json").read_text())
    assert {name: value for name, value in found.items() if name != "bins"} == {
        "candidate": "org/model",
        "benchmark": "xstest_safe",
        "kind": "sanity",
        "n": 9,
        "complied": 2,
        "neutral": 3,
        "rejected": 4,
    }
    with (folder / "xstest_safe.csv").open(newline="") as file:
        rows = [
            (float(r["from"]), float(r["to"]), int(r["prompts"]))
            for r in csv.DictReader(file)
        ]
    assert rows == [
        (each["from"], each["to"], each["prompts"]) for each in found["bins"]
    ]
    filled = {low: count for low, _, count in rows if count}
    assert filled == {-1.0: 1, -0.6: 1, -0.1: 1, 0.0: 1, 0.1: 1, 0.2: 1, 0.6: 2, 0.9: 1}
    assert (rows[0][0], rows[-1][1], len(rows)) == (-1.0, 1.0, BINS)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_every_prompt_is_in_one_bin_and_on_one_side(values: list[float]) -> None:
    found = histogram("b", "safety", values)
    assert sum(found.counts) == found.n == len(values)
    assert found.complied + found.neutral + found.rejected == found.n
