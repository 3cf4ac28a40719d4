"""A gate on one large recording: CPU seconds and the peak of memory.

``python -m tools.speed.recording ANSWERS CHARACTERS [ARGUMENTS OF THE GATE]``, one answer a prompt,
of so many characters, whose words are drawn at random.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from tools.speed.circumstances import circumstances
from tools.speed.instant import REFUSAL
from tools.speed.overhead import run_gate
from tools.speed.turns import say


def write(path: Path, answers: int, characters: int) -> None:
    """Write a recording of that many answers, each with its label."""
    words, draw = REFUSAL.split(), random.Random(0)
    with path.open("w") as file:
        for n in range(answers):
            text = f"I cannot {n}, {' '.join(draw.choices(words, k=characters // 4))}"
            row = {"id": f"{n}", "completion": text[:characters], "label": "refusal"}
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.recording", description=__doc__
    )
    parser.add_argument("answers", type=int)
    parser.add_argument("characters", type=int)
    given, further = parser.parse_known_args()
    facts = circumstances("tools.speed.recording")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "answers.jsonl"
        write(path, given.answers, given.characters)
        args = ["--candidate", f"replay:{path}", *(further or ["--judge", "labels"])]
        found = run_gate(Path(name), given.answers, args)
        size = path.stat().st_size / 1e6
    say("\n".join([*facts, "", f"a recording of {size:.0f} MB; {found.line}"]))


if __name__ == "__main__":
    main()
