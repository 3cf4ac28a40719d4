"""All measurements on a GPU in a few minutes: ``python -m tools.measure.gpu --out FILE``.

It starts an engine, compares the gate with a user's script, places candidate and judge beside each
other and in turns, and measures bookkeeping. It writes each part as soon as it is known; a part
that fails says why and does not stop the others. Rehearse on a CPU with ``--prompts 8 --tokens
32``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.measure import bookkeeping, plain, start
from tools.measure.gate import evaluated
from tools.measure.printing import by_turns, circumstances, say, table


def starts(given: Namespace) -> str:
    """Measure one start of the candidate's engine."""
    seconds = start.start(given.model)
    rows = [(name, f"{value:.1f}") for name, value in seconds.items()]
    return table(("phase of a start", "seconds"), rows)


def against_plain(given: Namespace) -> str:
    """Measure the gate against a user's script."""
    ratios = plain.measure(
        given.model, given.prompts, given.samples, given.tokens, given.logprobs, 1
    )
    return by_turns("gate / a user's script", ratios, 2)


def placed(kind: str, given: Namespace) -> str:
    """Measure candidate and judge on this machine with one kind of placement."""
    keys = {
        "engine.placement": kind,
        "sampling.samples": 2,
        "sampling.max_tokens": given.tokens,
    }
    requests = plain.prompts(given.prompts)
    with tempfile.TemporaryDirectory() as name:
        spent = evaluated(Path(name), requests, given.model, given.judge, keys)
    manifest = spent.result.summary.manifest
    ready: list[float] = []
    if manifest.engines:
        ready = list(manifest.engines.ready_s)
    rows = [
        ("seconds of the work", f"{spent.seconds:.1f}"),
        ("seconds in all", f"{spent.wall:.1f}"),
        ("engines ready after, seconds", ", ".join(f"{one:.0f}" for one in ready)),
        ("verdicts", str(manifest.tokens["judge"].verdicts)),
    ]
    return table((f"placement {kind}", "measured"), rows)


def books(given: Namespace) -> str:
    """Measure the gate's own cost."""
    return bookkeeping.measure(given.records, 5, 1)


PARTS: dict[str, Callable[[Namespace], str]] = {
    "bookkeeping": books,
    "start": starts,
    "plain": against_plain,
    "together": partial(placed, "together"),
    "turns": partial(placed, "turns"),
}


def main() -> None:
    """Run the parts, one after the other, and write what they print."""
    given = _parser().parse_args()
    begun = time.monotonic()
    given.out.write_text(circumstances("tools.measure.gpu") + "\n")
    for name in given.parts:
        took = time.monotonic() - begun
        if took > given.seconds:
            told = f"{name}: left out after {took:.0f} s (--seconds)"
        else:
            say(name)
            try:
                told = PARTS[name](given)
            except Exception as fault:  # whatever stops a part, the others are measured
                told = f"{name} failed: {' '.join(str(fault).split())[-300:]}"
        with given.out.open("a") as file:
            file.write(f"\n{told}\n")
    say(given.out.read_text())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.gpu",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="file for the tables")
    add("--model", default="demo:base", help="a folder, ORG/MODEL, demo:NAME")
    add("--judge", default="bundled", help="likewise")
    add("--parts", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART")
    add("--prompts", type=int, default=450, help="of every part with an engine")
    add("--samples", type=int, nargs="+", default=[2, 8], metavar="K")
    add("--tokens", type=int, default=512, help="of an answer, at most")
    add("--logprobs", nargs="+", default=["disputed"], metavar="WHEN")
    add("--records", type=int, default=2000, help="prompts of the part on bookkeeping")
    add("--seconds", type=float, default=600.0, help="after which no part begins")
    return parser


if __name__ == "__main__":
    main()
