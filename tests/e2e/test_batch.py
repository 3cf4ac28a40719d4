"""Batch files through vLLM's own batch command, against a live run of the same gates."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from refusal_checks.results.run_folder import RunFolder
from tests.e2e.conftest import ROOT, GateRun, RunPersona, gate_command, run_gate

BENCHMARKS = ("smoke_unsafe", "smoke_safe")


GREEDY = ("--samples", "1", "--temperature", "0", "--max-tokens", "256", "--allow-untrusted-judge")
"""One answer a prompt, the most probable one."""


def call(*args: str | Path) -> GateRun:
    """The gates of the demo models."""
    models = ("--candidate", "demo:aligned", "--judge", "demo:judge")
    thresholds = ("--thresholds", ROOT / "thresholds" / "smoke.toml")
    command = gate_command(*models, *GREEDY, *thresholds, *args)
    return run_gate(command)


def run_batch(output: str) -> Path:
    """Run the command line that an export printed; its results."""
    (line,) = re.findall(r"^  (.*run_batch.*)$", output, re.MULTILINE)
    words = shlex.split(line)
    first = next(i for i, word in enumerate(words) if "=" not in word)
    variables = dict(word.split("=", 1) for word in words[:first])
    done = subprocess.run(
        words[first:],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return Path(words[words.index("-o") + 1])


def answers(run: GateRun) -> dict[str, str]:
    """The answer to each prompt, by its id."""
    folder = RunFolder(run.folder)
    return {
        record.prompt.id: record.completion.text
        for name in BENCHMARKS
        for record in folder.records(name)
        if record.completion
    }


def test_batches_give_the_live_run_s_answers_and_rates(
    run_persona: RunPersona, tmp_path: Path
) -> None:
    live = run_persona("aligned", *GREEDY)
    batch = ("--store", tmp_path / "batch.sqlite")
    export = call(*batch, "--batch-export", tmp_path / "answers.jsonl")
    results = run_batch(export.output)
    export = call(*batch, "--batch-import", results, "--batch-export", tmp_path / "verdicts.jsonl")
    results = run_batch(export.output)
    call(*batch, "--batch-import", results)
    batched = call(*batch, "--stored-only")
    assert "starting vLLM" not in batched.output

    theirs, ours = answers(live), answers(batched)
    assert len(theirs) == len(ours) == 160
    same = sum(theirs[key] == ours[key] for key in theirs) / len(theirs)
    assert same >= 0.95, "batches of another shape change few answers"
    for name in BENCHMARKS:
        gate = f"{name}-rejection_rate"
        assert batched.value(gate) == pytest.approx(live.value(gate), abs=0.05)
    assert batched.status == live.status == 0
