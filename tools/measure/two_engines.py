"""Measure how two engines start on one GPU: ``python -m tools.measure.two_engines --out FOLDER``.

Candidate and judge start at once with nothing compiled, one after the other, and at once again; the
judge's encoder starts compiled. Memory that nvidia-smi shows stands beside the memory that was
planned, with what vLLM's logs say of it. On a CPU, ``--candidate tiny`` tries the same. Tables go
to the terminal and to ``two-engines.md``, the engines' logs into the same folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from unittest import mock

from refusal_checks.core.settings import Limits
from refusal_checks.engines import placement, vllm
from refusal_checks.engines.placement import Assignment, PlacementRequest
from refusal_checks.engines.pool import Engines
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.models.names import Served
from tools.measure.printing import circumstances, say, table
from tools.measure.shapes import GIB, SHAPES, measured, weights

Row = tuple[str, str]

TOLD = (
    r"Loading weights took .*",
    r"Model loading took .*",
    r"torch.compile .*took .*",
    r"Initial free memory [\d.]+ GiB, reserved [\d.]+ GiB memory for KV Cache",
    r"Available KV cache memory: .*",
    r"GPU KV cache size: .*",
    r"Actual usage is .* for CUDAGraph memory",
    r"Graph capturing finished .*",
    r"init engine .* took .*",
)
"""What vLLM's log tells of time and memory."""


class Rows(list[Row]):
    """What was seen, also said at once: a measurement may be broken off."""

    def add(self, name: str, value: str) -> None:
        say(f"  {name}: {value}")
        self.append((name, value))


def memory() -> float:
    """GiB in use on the GPUs that nvidia-smi shows; 0 without it."""
    command = [
        "nvidia-smi",
        "--query-gpu=memory.used",
        "--format=csv,noheader,nounits",
    ]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        return sum(map(float, done.stdout.split())) / 1024
    return 0.0


def told(log: Path) -> Iterator[str]:
    """What a log says of time and memory, each thing once."""
    text = log.read_text(errors="replace")
    for pattern in TOLD:
        lines = re.findall(pattern, text)
        if lines:
            yield lines[-1].strip()[:160]


class Models:
    """Candidate and judge, and where their engines' logs go."""

    def __init__(self, given: Namespace, folder: Path) -> None:
        self.out: Path = given.out
        candidate = measured(given.candidate, folder)
        args = (*given.candidate_args.split(),)
        if candidate.is_random:
            args = ("--load-format", "dummy", *args)
            _declare_size(Path(candidate.path))
        self.candidate = Served(given.candidate, candidate.path, args)
        self.judge = Served(given.judge, weights(given.judge), ())

    def started(self, part: str, *, at_once: bool) -> list[Row]:
        """Start both, and stop them; a row for each thing that was seen."""
        rows = Rows()
        rows.add("GiB in use before", f"{memory():.2f}")
        with _one_by_one(not at_once):
            engines = Engines(
                self.candidate,
                (self.judge,),
                self.out / part,
                Limits(),
                PlacementRequest("together"),
                start_timeout=300.0,
            )
            engines.place([self.candidate, self.judge])
        rows.add("placement", engines.placement.why)
        models = (self.candidate, self.judge)
        for model, place in zip(models, engines.placement.places, strict=True):
            rows.add(model.name, str(place))
        begun = time.monotonic()

        def seen(line: str) -> None:
            if " is ready after " in line:
                now = f"{time.monotonic() - begun:.1f} s, {memory():.2f} GiB in use"
                rows.add(line, now)

        try:
            engines.start(seen)
            rows.add("both ready after, seconds", f"{time.monotonic() - begun:.1f}")
            rows.add("GiB in use", f"{memory():.2f}")
        finally:
            engines.close()
            for number, role in enumerate(("candidate", "judge")):
                log = self.out / part / f"engine-{number}.log"
                if log.exists():
                    for line in told(log):
                        rows.add(role, line)
        return rows

    def process(self, part: str, model: Served, place: Assignment) -> EngineProcess:
        process = EngineProcess(EngineSpec.of(model), self.out / f"{part}.log")
        process.place = place
        return process


@contextmanager
def _one_by_one(is_forced: bool) -> Iterator[None]:
    """Leave the sizes of caches to the engines, which then have to load one after the other."""
    if not is_forced:
        yield
        return
    with (
        mock.patch.object(placement, "_cache", return_value=None),
        mock.patch.dict(os.environ, {"VLLM_LOGGING_LEVEL": "DEBUG"}),
    ):
        yield


def cold(models: Models) -> list[Row]:
    """At once, with nothing compiled if the cache's folder is new."""
    return models.started("cold", at_once=True)


def one_by_one(models: Models) -> list[Row]:
    """One after the other, as vLLM measures the memory."""
    if vllm.runs_on_cpu():
        return [("left out", "engines on a CPU always load at once")]
    return models.started("one-by-one", at_once=False)


def at_once(models: Models) -> list[Row]:
    """At once, each with a cache of a given size."""
    return models.started("at-once", at_once=True)


def encoder(models: Models) -> list[Row]:
    """The judge's engine alone: as it starts now, and compiled, the second time from files."""
    rows = Rows()
    for name, is_eager in (("eager", True), ("compiled", False), ("again", False)):
        place = Assignment(memory=0.1, cache=0.5, is_eager=is_eager)
        engine = models.process(f"encoder-{name}", models.judge, place)
        begun = time.monotonic()
        engine.launch()
        try:
            engine.wait_ready(300.0)
            rows.add(name, f"ready after {time.monotonic() - begun:.1f} s")
            texts = [
                f"Request {n}</s></s>Answer {n} " + "word " * 60 for n in range(64)
            ]
            for turn in range(4):
                begun = time.monotonic()
                body = {"model": engine.spec.model, "input": texts}
                _post(engine, "/classify", body, 60.0)
                seconds = time.monotonic() - begun
                rows.add(f"{name}, 64 texts, turn {turn + 1}", f"{seconds:.3f} s")
            rows.add(name, f"{memory():.2f} GiB in use")
        finally:
            engine.stop()
    return rows


def _post(engine: EngineProcess, path: str, body: object, seconds: float) -> bytes:
    with closing(HTTPConnection("127.0.0.1", engine.port, timeout=seconds)) as server:
        headers = {
            "Authorization": f"Bearer {engine.api_key}",
            "Content-Type": "application/json",
        }
        server.request("POST", path, json.dumps(body), headers)
        return server.getresponse().read()


PARTS: dict[str, Callable[[Models], list[Row]]] = {
    "cold": cold,
    "one-by-one": one_by_one,
    "at-once": at_once,
    "encoder": encoder,
}


def _declare_size(folder: Path) -> None:
    """Write the index of weights that are not there, so that their size is known."""
    about = json.loads((folder / "config.json").read_text())
    hidden, inner = about["hidden_size"], about["intermediate_size"]
    heads = about["num_attention_heads"] + about["num_key_value_heads"]
    layer = 2 * hidden * heads * about["head_dim"] + 3 * hidden * inner
    count = about["num_hidden_layers"] * layer + 2 * hidden * about["vocab_size"]
    index = {"metadata": {"total_size": 2 * count}, "weight_map": {}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    say(f"{folder.name}: {2 * count / GIB:.1f} GiB of random weights")


def main() -> None:
    """Run the parts, one after the other, and write what they saw."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    report = given.out / "two-engines.md"
    report.write_text(circumstances("tools.measure.two_engines") + "\n")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        models = Models(given, Path(name))
        for part in given.parts:
            took = time.monotonic() - begun
            try:
                if took > given.seconds:
                    raise TimeoutError(f"left out after {took:.0f} s (--seconds)")
                rows = PARTS[part](models)
            except Exception as fault:  # whatever stops a part, the others are measured
                rows = [("failed", " ".join(str(fault).split())[:600])]
            text = table((part, "seen"), rows)
            say(f"\n{text}")
            with report.open("a") as file:
                file.write(f"\n{text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.two_engines",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="for tables and logs")
    add("--candidate", default="8b", help=f"{', '.join(SHAPES)}, a folder, demo:NAME")
    add("--candidate-args", default="", help="further arguments of its engine")
    add("--judge", default="demo:judge", help="a folder, or a name of the demo package")
    add("--parts", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART")
    add("--seconds", type=float, default=300.0, help="after which no part begins")
    return parser


if __name__ == "__main__":
    main()
