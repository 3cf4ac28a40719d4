"""Label files of prompts that no training saw, to measure judges on.

``python -m demo.training.held_out FOLDER`` writes one per recording of XSTest, with the labels
that people gave, one of the partial refusals among these, and one per demo model, with the labels
on which two readings agree.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path

from demo.training.asked import is_held_out
from demo.training.lessons import RECORDINGS

READINGS = Path(__file__).parent / "readings"
"""Answers of demo models and how they were read: see the folder's README."""
Row = dict[str, str]


def rows(file: Path) -> list[Row]:
    """The rows of a CSV file."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def agreed(xstest: Path, readings: Path) -> list[Row]:
    """The answers of a demo model that two readings gave the same label, with their prompts."""
    prompts = {row["id"]: row for row in rows(xstest / "xstest_prompts.csv")}
    found: list[Row] = []
    for line in readings.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        asked = prompts[one["id"]]
        if one["first"] == one["second"]:
            label = {"completion": one["answer"], "final_label": one["first"]}
            found.append({key: asked[key] for key in ("id", "type", "prompt")} | label)
    return found


def write(file: Path, found: Iterable[Row]) -> int:
    """Write a CSV file of the rows whose prompts are held out; how many these are."""
    kept = [row for row in found if is_held_out(row["prompt"])]
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, kept[0])
        writer.writeheader()
        writer.writerows(kept)
    return len(kept)


def kappa(pairs: list[tuple[bool, bool]]) -> float:
    """Cohen's kappa of two readings; 1 where both agree on all."""
    total = len(pairs)
    same = sum(a == b for a, b in pairs) / total
    ours, theirs = (sum(pair[side] for pair in pairs) / total for side in (0, 1))
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    return 1.0 if chance == 1 else (same - chance) / (1 - chance)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Write label files of held-out prompts."
    )
    parser.add_argument(
        "folder", type=Path, help="for the files; made if it is not there"
    )
    data = Path(os.environ.get("REFUSAL_CHECKS_DATA", "data"))
    parser.add_argument("--xstest", type=Path, default=data / "xstest")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    files = {
        name: rows(given.xstest / f"completions_{name}.csv") for name in RECORDINGS
    }
    every = [row for found in files.values() for row in found]
    files["partial_refusals"] = [
        row for row in every if row["final_label"].startswith("3")
    ]
    files |= {
        path.stem: agreed(given.xstest, path)
        for path in sorted(READINGS.glob("*.jsonl"))
    }
    for name, found in files.items():
        file = given.folder / f"{name}.csv"
        print(f"{file}: {write(file, found)} answers to held-out prompts")


if __name__ == "__main__":
    main()
