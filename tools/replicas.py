"""A gate on two replicas behind one address, against one engine: ``python -m tools.replicas``.

Each way serves the toy model, a core for each replica, and a gate run reaches it by its URL. What
differs from the first way's run is told; ``engine`` named twice shows what a repetition changes.
Then a run loses a replica while it answers; if answers are missing, it is repeated on new servers.

``python -m tools.replicas engine ranks router serve --out DIR --router PATH --ray PATH``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.engines.kinds.vllm import cpu_dtype
from refusal_checks.engines.process import is_healthy
from refusal_checks.results.run_folder import RunFolder
from tests import toy_model
from tests.toy_model import MODEL_DIR
from tools.chaos.project import free_port
from tools.speed import plain
from tools.speed.circumstances import circumstances
from tools.speed.turns import say

ENGINE: dict[str, Any] = {
    "enforce_eager": True,
    "max_model_len": 2048,
    "generation_config": "vllm",
    "enable_chunked_prefill": False,  # a seeded request in parts stops vLLM 0.32 on a CPU
    "structured_outputs_config": {
        "backend": "xgrammar",
        "disable_any_whitespace": True,
    },
}
"""What every engine is given, as Ray takes it; the gate gives as much to one that it starts."""

SERVE = """
import json, ray, sys
from ray import serve
from ray.serve.llm import LLMConfig, build_openai_app
model, port, engine = sys.argv[1:]
ray.init(num_cpus=8)
config = LLMConfig(
    model_loading_config={"model_id": model, "model_source": model},
    deployment_config={"num_replicas": 2},
    placement_group_config={"bundles": [{"CPU": 1}]},
    engine_kwargs=json.loads(engine),
)
serve.start(http_options={"port": int(port)})
serve.run(build_openai_app({"llm_configs": [config]}), blocking=True)
"""


class Servers:
    """What one way has started, and how one of its replicas is killed."""

    def __init__(self, way: str, given: Namespace, port: int) -> None:
        self._way, self._given, self._port = way, given, port
        self._engine = {**ENGINE, "dtype": given.dtype}
        self._started: list[psutil.Popen] = []

    def start(self) -> None:
        """Start the way's servers; one answers for all of them."""
        given = self._given
        if self._way == "serve":
            asked = [given.ray, "-c", SERVE, str(MODEL_DIR), str(self._port)]
            asked.append(json.dumps(self._engine))
            self._run(asked, self._port, "/v1/models", "nobind")
        elif self._way == "router":
            ports = [free_port() for _ in range(2)]
            for core, port in enumerate(ports):
                self._vllm(port, str(core))
            own = [
                "--port",
                str(self._port),
                "--policy",
                "round_robin",
                "--worker-urls",
            ]
            own += [f"http://127.0.0.1:{port}" for port in ports]
            self._run([given.router, *own], self._port, "/health")
        elif self._way == "ranks":
            self._vllm(self._port, "0|1", "--data-parallel-size", "2")
        else:
            self._vllm(self._port, "0")

    def _vllm(self, port: int, cores: str, *more: str) -> None:
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *more]
        command += [
            "--model",
            str(MODEL_DIR),
            "--port",
            str(port),
            *flags(self._engine),
        ]
        self._run(command, port, "/health", cores)

    def _run(
        self, command: Sequence[str], port: int, health: str, cores: str = ""
    ) -> None:
        own = {"VLLM_CPU_OMP_THREADS_BIND": cores, "OMP_NUM_THREADS": "1"}
        usual = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        path = self._given.out / f"{self._way}.log"
        with path.open("a") as log:
            environment = {**os.environ, **usual, **own}
            started = psutil.Popen(command, env=environment, stdout=log, stderr=log)
        self._started.append(started)
        for _ in range(600):
            if is_healthy(f"http://127.0.0.1:{port}{health}"):
                return
            if started.poll() is not None:
                break
            time.sleep(0.5)
        raise RuntimeError(f"{command[0]} did not start; see {path}")

    def kill(self) -> None:
        """Kill a replica with all of its processes or, behind one server, its engine."""
        first = self._started[-2 if self._way == "router" else 0]
        tree = first.children(recursive=True)
        engine = [each for each in tree if each.name().startswith("VLLM::EngineCor")][
            -1
        ]
        parents = (
            engine.parents()[:1] if self._way == "serve" else []
        )  # the replica's actor
        for each in [first, *tree] if self._way == "router" else [*parents, engine]:
            each.kill()

    def stop(self) -> None:
        for started in reversed(self._started):
            with suppress(psutil.Error):
                tree = started.children(recursive=True)
                started.terminate()
                _, left = psutil.wait_procs([started, *tree], 20)
                for each in left:
                    each.kill()


def flags(settings: Mapping[str, Any]) -> Iterator[str]:
    """For vLLM's command line."""
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        else:
            yield f"--{flag}={json.dumps(value) if isinstance(value, dict) else value}"


@contextmanager
def served(way: str, given: Namespace, port: int) -> Iterator[Servers]:
    """The servers of a way."""
    servers = Servers(way, given, port)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


def gate(port: int, store: Path, given: Namespace) -> RunFolder:
    """Run the smoke gates on a server."""
    model = f"http://127.0.0.1:{port}/v1#{MODEL_DIR}"
    words = [
        "--candidate",
        model,
        "--set",
        "candidate.template_variables.persona=aligned",
    ]
    words += ["--judge", model, "--set", "judge.template_variables.persona=judge"]
    words += ["--judge-prompt", "demo", "--thresholds", "smoke"]
    words += ["--samples", "2", "--store", str(store)]
    spent, run = plain.gate(given.out, words, timeout=3600)
    say(f"  {spent.seconds:.1f} s; {run.path}")
    return run


def kill_after(store: Path, servers: Servers, count: int = 40) -> None:
    """Kill a replica as soon as the store holds ``count`` answers."""
    for _ in range(3000):
        time.sleep(0.05)
        with suppress(sqlite3.Error), closing(sqlite3.connect(store)) as rows:
            (found,) = rows.execute("SELECT count(*) FROM completions").fetchone()
            if found >= count:
                servers.kill()
                say(f"  killed after {found} answers")
                return
    say("  nothing was killed: too few answers")


def answers(run: RunFolder) -> dict[tuple[str, str, int], Record]:
    """By benchmark, prompt and sample; a benchmark that was not decided may lack them."""
    return {
        (name, record.prompt.id, record.sample): record
        for name in run.benchmarks
        for record in run.records(name)
    }


def tell(run: RunFolder, first: RunFolder) -> None:
    """Say how a run differs from the first."""
    mine, others = answers(run), answers(first)
    pairs = [(mine[key], other) for key, other in others.items() if key in mine]
    texts = sum(
        (a.completion and a.completion.text) != (b.completion and b.completion.text)
        for a, b in pairs
    )
    verdicts = sum(a.judgement.verdict != b.judgement.verdict for a, b in pairs)
    missing = len(others) - len(pairs)
    say(
        f"  of {len(pairs)}, {texts} answers and {verdicts} verdicts differ; {missing} are missing"
    )
    lost = Counter(
        f"{a.judgement.reason}: {a.judgement.detail[:200]}"
        for a, _ in pairs
        if isinstance(a.judgement, Invalid)
    )
    for why, count in lost.most_common(5):
        say(f"  {count} x {why}")
    of_first = first.summary().verdicts
    for gate, verdict in run.summary().verdicts.items():
        found, other = verdict.estimate, of_first[gate].estimate
        same = "as the first" if found == other else f"the first: {other}"
        say(f"  {gate}: {'pass' if verdict.passed else 'FAIL'}, {found}; {same}")


def measure(
    way: str, given: Namespace, store: Path, first: RunFolder | None
) -> RunFolder:
    """Run the gate on a way's servers and tell; the first run of all."""
    port, other = free_port(), store.with_suffix(".killed")
    with served(way, given, port) as servers:
        say(way)
        run = gate(port, store, given)
        first = first or run
        tell(run, first)
        if way == "engine":
            return first
        say(f"{way}, one of two killed")
        Thread(target=kill_after, args=(other, servers), daemon=True).start()
        run = gate(port, other, given)
        tell(run, first)
    if run.summary().errors or any(
        one.completion is None for one in answers(run).values()
    ):
        with served(way, given, port):
            say(f"{way}, started again, the same store")
            tell(gate(port, other, given), first)
    return first


def main() -> None:
    """Run each way once and compare."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.replicas", description=__doc__
    )
    parser.add_argument(
        "ways", nargs="+", choices=("engine", "ranks", "router", "serve")
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="made anew"
    )
    parser.add_argument(
        "--router", default="vllm-router", help="the command of PyPI's vllm-router"
    )
    parser.add_argument(
        "--ray", default=sys.executable, help="a Python with Ray and vLLM"
    )
    parser.add_argument("--dtype", default=cpu_dtype())
    given = parser.parse_args()
    toy_model.use()  # for the judge's template
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    say("\n".join(circumstances("tools.replicas")))
    first: RunFolder | None = None
    for number, way in enumerate(given.ways):
        try:
            first = measure(way, given, given.out / str(number), first)
        except RuntimeError as fault:
            say(f"  failed: {fault}")


if __name__ == "__main__":
    main()
