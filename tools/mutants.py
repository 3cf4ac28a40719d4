"""Change lines of the modules that decide, one at a time, and see whether a test fails.

``python -m tools.mutants [--mutants 60] [--seed 0] [TEST PATHS]`` works on a copy of the project's
committed files. Each change affects one token: a comparison shifted or negated, ``and`` for ``or``,
a ``not`` dropped, a sign or a number changed. Survivors are printed with their lines. Some change
nothing observable; a reader must tell these from missing tests.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

MODULES = {
    "refusal_checks/gates/decision.py": "tests/unit/gates",
    "refusal_checks/gates/comparison.py": "tests/unit/gates",
    "refusal_checks/config/benchmark_tables.py": "tests/unit/gates",
    "refusal_checks/metrics/statistics/paired.py": "tests/unit/metrics",
    "refusal_checks/metrics/statistics/intervals.py": "tests/unit/metrics",
    "refusal_checks/metrics/worst_case.py": "tests/unit/metrics",
    "refusal_checks/judges/parsing.py": "tests/unit/judges",
    "refusal_checks/models/identity.py": "tests/unit/models",
    "refusal_checks/results/redact.py": "tests/unit/results",
    "refusal_checks/wording/release.py": "tests/unit/reports",
}
"""The modules that decide, each with the tests that are tried first."""

CHANGES = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "/": "*",
    "and": "or",
    "or": "and",
    "not": "",
    "True": "False",
    "False": "True",
}


@dataclass(frozen=True)
class Mutant:
    """One changed token.

    Attributes:
        row: from 1; column: from 0.
        old, new: the token, and its replacement.
    """

    module: str
    row: int
    column: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The module's text with the change."""
        lines = text.splitlines(keepends=True)
        line = lines[self.row - 1]
        end = self.column + len(self.old)
        lines[self.row - 1] = line[: self.column] + self.new + line[end:]
        return "".join(lines)


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """All possible changes of a module's code."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        new = CHANGES.get(token.string)
        if token.type == tokenize.NUMBER and token.string.isdigit():
            new = str(int(token.string) + 1)
        if new is None or token.type not in (
            tokenize.OP,
            tokenize.NAME,
            tokenize.NUMBER,
        ):
            continue
        yield Mutant(module, *token.start, token.string, new)


def drawn(count: int, seed: int) -> list[Mutant]:
    """Draw changes at random, equally many from each module, and at most one for a line."""
    chance = random.Random(seed)
    by_module = []
    for module in MODULES:
        changes = list(mutants(module, (ROOT / module).read_text(encoding="utf-8")))
        chance.shuffle(changes)
        by_module.append(changes)

    chosen: list[Mutant] = []
    lines: set[tuple[str, int]] = set()
    while len(chosen) < count and any(by_module):
        for changes in by_module:
            while changes:
                mutant = changes.pop()
                if (mutant.module, mutant.row) not in lines:
                    lines.add((mutant.module, mutant.row))
                    chosen.append(mutant)
                    break
    return chosen[:count]


def is_noticed(copy: Path, paths: Sequence[str]) -> bool:
    """True if one of the tests at these paths fails in the copy, or none can be collected."""
    folders = [str(copy), str(copy / "extensions"), str(copy / "demo")]
    command = [sys.executable, "-m", "pytest", *paths]
    command += ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    command += ["-n", "2", "--dist", "loadfile"]
    done = subprocess.run(
        command,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        check=False,
        timeout=1800,
    )
    return done.returncode != 0


def copied(folder: Path) -> Path:
    """A copy of the project's committed files."""
    copy = folder / "project"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)  # noqa: S607
    return copy


def main() -> None:
    """Parse the command line, try the changes, and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__
    )
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("paths", nargs="*", default=["tests/unit", "tests/run"])
    given = parser.parse_args()

    survivors = 0
    with tempfile.TemporaryDirectory() as name:
        copy = copied(Path(name))
        for number, mutant in enumerate(drawn(given.mutants, given.seed), 1):
            file = copy / mutant.module
            text = file.read_text(encoding="utf-8")
            file.write_text(mutant.apply(text), encoding="utf-8")
            try:
                noticed = is_noticed(copy, [MODULES[mutant.module]])
                noticed = noticed or is_noticed(copy, given.paths)
            finally:
                file.write_text(text, encoding="utf-8")
            outcome = "noticed"
            if not noticed:
                outcome = "SURVIVED"
                survivors += 1
            line = text.splitlines()[mutant.row - 1].strip()
            print(
                f"{number:3} {outcome:8} {mutant.module}:{mutant.row} "
                f"{mutant.old!r} -> {mutant.new!r}: {line}",
                flush=True,
            )
    print(f"{survivors} of {given.mutants} changes survived")


if __name__ == "__main__":
    main()
