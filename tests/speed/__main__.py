"""Measure everything in one run, and print the tables of ``docs/explanation/speed.md``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from refusal_checks.engines.base import WHOLE_MACHINE, EngineSpec
from refusal_checks.engines.kinds.vllm import ENGINE
from refusal_checks.engines.placement.values import Assignment
from refusal_checks.engines.process import EngineProcess
from refusal_checks.run.plan import Plan
from tests.speed import overhead, workload
from tests.speed.pipeline import Pipeline, Server
from tests.speed.workload import Lengths, Request
from tests.toy_model import MODEL_DIR

AT_ONCE = (64, 128, 256)
PARTS = ("engine", "offline", "engines", "model", "overhead")


def main() -> None:
    """Parse the command line, then measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed", description=__doc__)
    parser.add_argument("--prompts", type=int, default=24, help="a benchmark, of four")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=int, default=125_000, help="of the overhead's run")
    parser.add_argument("--skip", nargs="*", default=(), choices=PARTS)
    parser.add_argument("--in-flight", type=int, default=103, help="prompts, as the gate would")
    parser.add_argument("--spread", type=float, default=0.9, help="of answers' lengths")
    given = parser.parse_args()
    plan, lengths = workload.benchmarks(given.prompts), Lengths(spread=given.spread)
    if "engine" not in given.skip:
        _engine(plan, given.in_flight, lengths, given.repeats, "offline" not in given.skip)
    if "engines" not in given.skip:
        _two_engines(plan, given.in_flight, lengths, given.repeats)
    if "model" not in given.skip:
        _model(given.in_flight, given.repeats, given.spread)
    if "overhead" not in given.skip:
        print(overhead.measure(given.records // 5, 5).line)


def _engine(plan: Plan, in_flight: int, lengths: Lengths, repeats: int, offline: bool) -> None:
    """Candidate and judge on one engine, as where they are one model."""
    with tempfile.TemporaryDirectory() as name, _running(Path(name), WHOLE_MACHINE) as (server,):
        pipeline = Pipeline(server, server, plan, in_flight, lengths)
        requests = _served(pipeline, Path(name), repeats)
        if offline:
            _offline(Path(name), requests, repeats)


def _two_engines(plan: Plan, in_flight: int, lengths: Lengths, repeats: int) -> None:
    """Candidate and judge on an engine each, at the same time, with half of the cores each."""
    cores = sorted(os.sched_getaffinity(0))
    halves = (cores[: len(cores) // 2], cores[len(cores) // 2 :])
    places = [Assignment(cores=tuple(half)) for half in halves]
    with tempfile.TemporaryDirectory() as name, _running(Path(name), *places) as (one, two):
        print("two engines:", flush=True)
        _served(Pipeline(one, two, plan, in_flight, lengths), Path(name), repeats)


@contextmanager
def _running(folder: Path, *places: Assignment) -> Iterator[list[Server]]:
    """Engines of the demo model, ready, one a place."""
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # for /reset_prefix_cache
    with ExitStack() as stack:
        engines = []
        for number, place in enumerate(places):
            engine = EngineProcess(EngineSpec(str(MODEL_DIR)), folder / f"engine-{number}.log")
            engine.place = place
            stack.callback(engine.stop)
            engine.launch()
            engine.wait_ready(600)
            engines.append(Server(engine.url, engine.api_key))
        yield engines


def _served(pipeline: Pipeline, folder: Path, repeats: int) -> Sequence[Request]:
    """By turns the gate, the bare requests, and the requests with barriers."""
    _, requests = pipeline.gate(folder / "warm.sqlite")
    judged = sum(request.is_judge for request in requests)
    print(f"{len(requests) - judged} requests for answers, {judged} for verdicts", flush=True)
    floors = {at_once: _fresh(pipeline).floor(requests, at_once) for at_once in AT_ONCE}
    best = min(floors, key=floors.__getitem__)
    print("bare requests at once:", {n: round(t, 1) for n, t in floors.items()}, flush=True)
    rows = []
    for number in range(repeats):
        floor = _fresh(pipeline).floor(requests, best)
        gate, _ = _fresh(pipeline).gate(folder / f"{number}.sqlite")
        barriers = _fresh(pipeline).barriers(requests)
        rows.append((floor, gate, barriers))
        print(
            f"floor {floor:.1f} s, gate {gate:.1f} s ({gate / floor:.2f} of the floor), with "
            f"barriers {barriers:.1f} s ({barriers / gate:.2f} of the gate)",
            flush=True,
        )
    _medians("gate / floor", [gate / floor for floor, gate, _ in rows])
    _medians("barriers / gate", [barriers / gate for _, gate, barriers in rows])
    _medians("floor, s", [floor for floor, _, _ in rows])
    return requests


def _model(in_flight: int, repeats: int, spread: float) -> None:
    """The same ways on a model of a GPU, whose steps take as long however many sequences."""
    plan, lengths = workload.benchmarks(40), Lengths(spread=spread)
    with overhead.instant_server("0.005", "256") as named, tempfile.TemporaryDirectory() as name:
        server = Server(named.partition("#")[0])
        pipeline = Pipeline(server, server, plan, in_flight, lengths)
        rows = []
        for number in range(repeats):
            gate, requests = pipeline.gate(Path(name) / f"{number}.sqlite")
            rows.append((pipeline.floor(requests, 256), gate, pipeline.barriers(requests)))
    print("model (floor, gate, barriers), s:", [[round(t, 1) for t in row] for row in rows])
    _medians("model: gate / floor", [gate / floor for floor, gate, _ in rows])
    _medians("model: barriers / gate", [barriers / gate for _, gate, barriers in rows])


def _fresh(pipeline: Pipeline) -> Pipeline:
    pipeline.forget()
    return pipeline


def _offline(folder: Path, requests: Sequence[Request], repeats: int) -> None:
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(request.body) + "\n" for request in requests))
    command = [sys.executable, "-m", "tests.speed.offline", str(path), str(repeats + 1)]
    done = subprocess.run(
        command,
        cwd=overhead.ROOT,
        env=ENGINE.environment("", EngineSpec(str(MODEL_DIR))),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    lines = [line for line in done.stdout.splitlines() if line.startswith("seconds ")]
    _medians("offline, s", [float(line.split()[1]) for line in lines[1:]])


def _medians(what: str, values: Sequence[float]) -> None:
    print(f"{what}: median {statistics.median(values):.2f} of", [round(v, 2) for v in values])


if __name__ == "__main__":
    main()
