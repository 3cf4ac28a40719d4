"""One proof for a GPU: ``python -m tools.gpu_proof --out DIR`` measures and writes DIR/proof.md.

It needs vLLM and a local model (the demo base if nothing else), and compares the gate with a user's
offline script, places engines, counts verdicts a second and the gate's own cost, and kills an
engine in the middle. On a GPU, expect fifteen minutes: each of its engines takes more than one to
start. ``--parts`` selects parts; the table names those that were skipped, and why. It also runs on
a CPU, where its figures mean little: ``--model toy --prompts 8 --tokens 32``.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Thread

import psutil

from refusal_checks.engines import devices
from refusal_checks.results.manifest import Manifest
from tools.speed import overhead, plain
from tools.speed.circumstances import circumstances
from tools.speed.table import markdown
from tools.speed.turns import Turns, say

Rows = list[tuple[str, str]]
"""What was measured, and what came out."""

VITAL = "VLLM::EngineCore"
"""Begins the names of the processes without which an engine is useless."""

SOON = ("--candidate-args=--enforce-eager", "--judge-args=--enforce-eager")
"""Skip compilation where speed is not what is measured."""

PARTS = ("bookkeeping", "offline", "together", "turns", "split", "verdicts", "kill")


class Proof:
    """The parts of the proof, each of which runs the gate as a user does."""

    def __init__(self, given: Namespace) -> None:
        self._given = given
        self._model = plain.served(given.model, given.judge)
        self._prompts = plain.prompts(given.prompts)
        self._folder: Path = given.out
        self._judge = given.judge or (
            "demo:judge" if given.model == "toy" else "bundled"
        )
        thresholds = plain.data(self._folder, self._prompts)
        limits = ("--max-tokens", str(given.tokens), "--samples", "2")
        self._usual = ("--thresholds", str(thresholds), *limits)
        self._store = self._folder / "together.sqlite"

    def parts(self) -> dict[str, Callable[[], Rows]]:
        several = len(devices.gpus().ids) > 1
        kinds = ("together", "turns", *(["split"] if several else []))
        return {
            "bookkeeping": self._bookkeeping,  # without an engine, so it takes seconds
            "offline": self._offline,
            **{kind: partial(self._placement, kind) for kind in kinds},
            "verdicts": self._verdicts,
            "kill": self._kill,
        }

    def _gate(self, *arguments: str) -> tuple[float, Manifest]:
        """Seconds of the evaluation, and the run's manifest."""
        both = ("--candidate", self._model.name, "--judge", self._judge)
        done, run = plain.gate(self._folder, (*both, *self._usual, *SOON, *arguments))
        return done.seconds, run.summary().manifest

    def _offline(self) -> Rows:
        given, turns = self._given, Turns()
        plain.turn(turns, self._folder, self._model, self._prompts, given)
        ratios = plain.measured(turns, given)
        return [
            (f"{each.name}, {each.work}", f"{each.turns[0]:.2f}") for each in ratios
        ]

    def _placement(self, kind: str) -> Rows:
        self._store.unlink(missing_ok=True)
        took, found = self._gate(
            "--set", f"engine.placement={kind}", "--store", str(self._store)
        )
        ready = sum(found.engines.ready_s) if found.engines else 0.0
        asked = found.asked
        assert asked, "it asked both models"
        told = f"{took:.1f} s for {asked.answers} answers, {asked.verdicts} verdicts at most"
        where = (
            f"placed {found.placement.get('kind')}" if found.placement else "not placed"
        )
        return [
            (
                f"engine.placement={kind}",
                f"{told}; engines ready after {ready:.0f} s; {where}",
            )
        ]

    def _verdicts(self) -> Rows:
        """The judge alone, on the answers of the placement before."""
        if not self._store.exists():
            raise RuntimeError(
                "add together or turns to --parts: it judges their answers again"
            )
        with closing(sqlite3.connect(self._store)) as store, store:
            store.execute("DELETE FROM judgements")
        took, found = self._gate("--store", str(self._store))
        asked, engines = found.tokens["judge"].verdicts, found.engines
        if engines and self._model.name not in engines.started:
            took -= sum(
                engines.ready_s
            )  # the work began while the judge's own engine loaded
        return [
            (
                "verdicts a second, distinct answers",
                f"{asked / took:.1f} ({asked} verdicts)",
            )
        ]

    def _kill(self) -> Rows:
        """An engine is killed while it answers; the same run goes on with another one."""
        store = self._folder / "killed.sqlite"
        store.unlink(missing_ok=True)
        killed: list[str] = []
        killer = Thread(target=_kill_engine, args=(store, killed), daemon=True)
        killer.start()
        _, found = self._gate("--store", str(store))
        assert found.asked, "it asked both models"
        with closing(sqlite3.connect(store)) as rows:
            (count,) = rows.execute("SELECT count(*) FROM completions").fetchone()
        lost = found.asked.answers - count
        how = (
            f"killed {killed[0]}"
            if killed
            else "the run ended before an engine could be killed"
        )
        return [
            (
                "one kill",
                f"{how}; {count} answers stored, {lost} lost; all gates decided",
            )
        ]

    def _bookkeeping(self) -> Rows:
        return [
            ("bookkeeping", overhead.measure(self._given.records, 5).line),
            ("a bare client", f"{overhead.floor(5):.0f} records/s"),
        ]


def _kill_engine(store: Path, killed: list[str]) -> None:
    """Kill this process's first engine that has given answers."""
    for _ in range(3000):
        time.sleep(0.1)
        with suppress(sqlite3.Error, psutil.Error):
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as rows:
                if not rows.execute("SELECT 1 FROM completions").fetchone():
                    continue
            children = psutil.Process().children(recursive=True)
            engines = [each for each in children if each.name().startswith(VITAL[:15])]
            servers = [
                each for each in children if "api_server" in " ".join(each.cmdline())
            ]
            for each in engines or servers:
                each.kill()
                killed.append(each.name())
                return


def main() -> None:
    """Measure what there is time for, and write one table."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    given.out = given.out.resolve()
    begun = time.monotonic()
    rows: Rows = []
    facts = circumstances("tools.gpu_proof")
    parts = Proof(given).parts()
    for name in [name for name in PARTS if name in (given.parts or parts)]:
        if not (part := parts.get(name)):
            rows.append((name, "left out: it needs several GPUs"))
            continue
        if time.monotonic() - begun > given.seconds:
            rows.append(
                (
                    name,
                    f"left out: it would begin after {given.seconds:.0f} s (--seconds)",
                )
            )
            continue
        say(name)
        try:
            rows += part()
        except (
            RuntimeError,
            AssertionError,
            subprocess.SubprocessError,
            sqlite3.Error,
        ) as fault:
            rows.append((name, f"failed: {' '.join(str(fault).split())[-300:]}"))
        _write(given.out, facts, rows, time.monotonic() - begun)
    _write(given.out, facts, rows, time.monotonic() - begun)
    say((given.out / "proof.md").read_text())
    sys.exit(any(told.startswith("failed") for _, told in rows))


def _write(folder: Path, facts: Sequence[str], rows: Rows, took: float) -> None:
    told = [*rows, ("the whole proof", f"{took:.0f} s")]
    head = [*facts, "", markdown(("what", "measured"), told), ""]
    (folder / "proof.md").write_text("\n".join(head))
    (folder / "proof.json").write_text(
        json.dumps({"facts": [*facts], "rows": told}, indent=1)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_proof",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the table and the logs",
    )
    add("--model", default="demo:base", help="a folder, ORG/MODEL, demo:NAME, or toy")
    add("--judge", default="", help="likewise; default: bundled, or the toy's own")
    add(
        "--parts",
        nargs="+",
        choices=PARTS,
        metavar="PART",
        help=f"of {', '.join(PARTS)}",
    )
    add("--prompts", type=int, default=450, help="prompts of every part")
    add(
        "--samples",
        type=int,
        nargs="+",
        default=[2, 5],
        help="K, beside the offline script",
    )
    add("--tokens", type=int, default=512, help="most of an answer")
    add(
        "--logprobs",
        nargs="+",
        default=["disputed"],
        help="ways of the gate beside the script",
    )
    add("--records", type=int, default=2000, help="prompts of the part on bookkeeping")
    add(
        "--seconds",
        type=float,
        default=900.0,
        help="after which no further part begins",
    )
    return parser


if __name__ == "__main__":
    main()
