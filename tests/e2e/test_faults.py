"""Engines that are killed in the middle of a run, one of them with two engine processes."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.e2e.conftest import ROOT, GateRun, RunPersona, gate_command
from tests.e2e.test_lifecycle import SMOKE, vllm_processes

pytestmark = pytest.mark.engine

LEAST = 60
"""Requests that must have been answered before an engine is killed."""


def is_server(process: psutil.Process) -> bool:
    words = process.cmdline()
    return "vllm.entrypoints.openai.api_server" in words and "refusal_checks.guard" not in words


def is_second_core(process: psutil.Process) -> bool:
    return process.cmdline()[:1] == ["VLLM::EngineCore_DP1"]


def said_until(output: IO[str], pattern: str) -> tuple[str, str]:
    """What a run says up to a line, and that line's first group."""
    said = ""
    for line in output:
        said += line
        if found := re.search(pattern, line):
            return said, found[1]
    raise AssertionError(said)


def answered(log: Path) -> int:
    """How many requests an engine's log shows as answered."""
    return log.read_text(errors="replace").count('completions HTTP/1.1" 200')


def run_and_kill(
    tmp_path: Path, victim: Callable[[psutil.Process], bool], args: str, *more: str
) -> GateRun:
    """A run whose engine loses a process once it has answered some requests."""
    before = vllm_processes()
    command = gate_command(
        *("--candidate", "demo:aligned", "--judge", "demo:judge", *SMOKE),
        *("--candidate-args", args, "--judge-args", args, "--store", tmp_path / "store.sqlite"),
        *("--samples", "2", *more),
    )
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        first, log = said_until(run.stdout, r"starting vLLM .*log: (.*)\)")
        then, _ = said_until(run.stdout, r"vLLM is (ready) after")
        while answered(Path(log)) < LEAST:
            assert run.poll() is None
            time.sleep(0.1)
        new = map(psutil.Process, vllm_processes() - before)
        (killed,) = filter(victim, new)
        killed.kill()
        rest = run.stdout.read()
    assert vllm_processes() - before == set()
    return GateRun(run.returncode, first + then + rest)


def restarts(run: GateRun) -> int:
    """How often an engine was started again."""
    return sum("was started again, once" in note for note in run.summary["notes"])


RATES = ("smoke_unsafe-rejection_rate", "smoke_safe-rejection_rate")


def test_a_run_whose_server_is_killed_gives_the_rates_of_one_that_is_left_alone(
    tmp_path: Path, run_persona: RunPersona
) -> None:
    run = run_and_kill(tmp_path, is_server, "")
    assert run.status == 0, run.output
    assert restarts(run) == 1
    (log,) = run.folder.glob("engine-*.log")
    assert log.read_text().count("Started server process") == 2
    clean = run_persona("aligned", "--samples", "2", "--fresh")
    for gate in RATES:
        # Another batch shape changes about one answer in 32; one of 80 prompts is 0.0125.
        assert run.value(gate) == pytest.approx(clean.value(gate), abs=0.05)
    for found in run.summary["benchmarks"].values():
        assert found["answers"] == 2 * 80
        assert not {"engine_error", "judge_error"} & found["invalid"].keys()


def test_data_parallel_engines_answer_and_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    run = run_and_kill(tmp_path, is_second_core, "--data-parallel-size 2", "-m", "sanity")
    assert run.status == 0, run.output
    assert restarts(run) == 1
    assert run.value(RATES[1]) < 0.2
    (log,) = run.folder.glob("engine-*.log")
    text = log.read_text()
    assert "VLLM::EngineCore has ended" in text or "EngineDeadError" in text
    assert len(set(re.findall(r"EngineCore_DP[01] pid=(\d+)", text))) == 4
