"""Engines and runs that are killed, on real vLLM: what goes on, and what the next run repeats."""

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from refusal_checks.engines.process import EngineProcess
from refusal_checks.io.store import Store
from tests.e2e.conftest import (
    ROOT,
    SMOKE,
    UNVERIFIED,
    GateRun,
    RunPersona,
    environment,
    gate_command,
    run_gate,
)
from tests.support.processes import lives, words
from tests.toy_model import MODEL_DIR

LEAST = 60
"""Requests that must have been answered before an engine is killed."""


def is_server(process: psutil.Process) -> bool:
    found = words(process)
    return (
        any(word.startswith("vllm.entrypoints.") for word in found)
        and "refusal_checks.engines.supervisor" not in found
    )


def is_second_core(process: psutil.Process) -> bool:
    return words(process)[:1] == ["VLLM::EngineCore_DP1"]


def family(run: subprocess.Popen[bytes]) -> set[psutil.Process]:
    """The processes that a run has started, and those that they have."""
    try:
        return set(psutil.Process(run.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def answered(output: Path) -> int:
    """How many requests a run's engine shows as answered in its log, which the run names."""
    log = re.search(r"starting vLLM .*log: (.*)\)", output.read_text(errors="replace"))
    if not log or not Path(log[1]).exists():
        return 0
    return Path(log[1]).read_text(errors="replace").count('completions HTTP/1.1" 200')


def run_and_kill(
    tmp_path: Path, victim: Callable[[psutil.Process], bool], args: str, *more: str
) -> GateRun:
    """A run whose engine loses a process once it has answered some requests."""
    command = gate_command(
        *("--candidate", "demo:aligned", "--judge", "demo:writer", *SMOKE),
        *(
            "--set",
            f"candidate.args={args}",
            "--set",
            f"judge.args={args}",
            "--store",
            tmp_path / "store.sqlite",
        ),
        *("--samples", "2", *more),
    )
    output = tmp_path / "output.txt"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
        ) as run,
    ):
        while answered(output) < LEAST:
            assert run.poll() is None, output.read_text()
            time.sleep(0.1)
        seen = family(run)
        (killed,) = filter(victim, seen)
        killed.kill()
        while run.poll() is None:
            seen |= family(run)
            time.sleep(0.5)
    assert not list(filter(lives, seen))
    return GateRun(run.returncode, output.read_text())


def restarts(run: GateRun) -> int:
    """How often an engine was started again."""
    return sum("was started again, once" in note for note in run.summary["notes"])


RATES = ("smoke_unsafe-rejection_rate", "smoke_safe-rejection_rate")


def test_a_run_whose_server_is_killed_gives_the_rates_of_one_that_is_left_alone(
    tmp_path: Path, run_persona: RunPersona
) -> None:
    run = run_and_kill(tmp_path, is_server, "")
    assert run.status == UNVERIFIED, run.output
    assert restarts(run) == 1
    (log,) = run.folder.glob("engine-*.log")
    assert log.read_text().count("Started server process") == 2
    clean = run_persona("aligned", "--samples", "2")
    for gate in RATES:
        # Another batch shape changes about one answer in 32; one of 80 prompts is 0.0125.
        assert run.value(gate) == pytest.approx(clean.value(gate), abs=0.05)
    for found in run.summary["benchmarks"].values():
        assert found["answers"] == 2 * 80
        assert not {"engine_error", "judge_error"} & found["invalid"].keys()


@pytest.mark.nightly
def test_data_parallel_engines_answer_and_one_that_is_killed_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a CPU, vLLM wants a NUMA node for each rank otherwise.
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    run = run_and_kill(
        tmp_path, is_second_core, "--data-parallel-size 2", "-m", "sanity"
    )
    assert run.status == UNVERIFIED, run.output
    assert restarts(run) == 1
    assert run.value(RATES[1]) < 0.2
    (log,) = run.folder.glob("engine-*.log")
    text = log.read_text()
    assert "VLLM::EngineCore has ended" in text or "EngineDeadError" in text
    assert len(set(re.findall(r"EngineCore_DP[01] pid=(\d+)", text))) == 4


IN_FLIGHT = 4
ANSWERS = 80
"""One to each prompt of a bundled benchmark."""


def generated(engine: EngineProcess) -> int:
    """How many generations the engine has ended."""
    request = urllib.request.Request(
        engine.url.replace("/v1", "/metrics"),
        headers={"Authorization": f"Bearer {engine.api_key}"},
    )
    with urllib.request.urlopen(request) as reply:
        text = reply.read().decode()
    counts = re.findall(
        r"^vllm:request_success_total{.*} ([0-9.e+]+)$", text, re.MULTILINE
    )
    return sum(int(float(count)) for count in counts)


def stored(path: Path) -> int:
    """How many answers the store holds."""
    if not path.exists():
        return 0
    with Store(path) as store:
        return store.count_completions()


def test_a_killed_run_is_gone_on_with(engine: EngineProcess, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    command = gate_command(
        *(
            "--candidate",
            f"{engine.url}#{MODEL_DIR}",
            "--judge",
            "keyword",
            "--store",
            path,
        ),
        *(
            "--set",
            "candidate.template_variables.persona=aligned",
            "-k",
            "smoke_unsafe",
        ),
        *SMOKE,
        *(
            "--samples",
            "1",
            "--set",
            "sampling.max_tokens=32",
            "--set",
            f"limits.in_flight={IN_FLIGHT}",
        ),
    )
    known = environment(engine)
    begun = generated(engine)
    with subprocess.Popen(
        command, cwd=ROOT, env=known, stdout=subprocess.DEVNULL
    ) as session:
        while session.poll() is None and stored(path) < 20:
            time.sleep(0.1)
        session.kill()
    kept, killed = stored(path), generated(engine)
    assert 20 <= kept < ANSWERS
    second = run_gate(command, known)
    assert (
        f"{ANSWERS} prompts of smoke_unsafe: {ANSWERS - kept} answers to gen"
        in second.output
    )
    asked = second.summary["execution"]["tokens"]["candidate"]["requests"]
    assert asked == ANSWERS - kept
    assert stored(path) == ANSWERS
    greeting = generated(engine) - killed - asked  # the first question of a run
    first = killed - begun - greeting
    assert kept - IN_FLIGHT <= first <= kept + IN_FLIGHT
    again = run_gate([*command, "--refusal-set", "store.reuse=true"], known)
    assert "smoke_unsafe: 0 answers to generate" in again.output
