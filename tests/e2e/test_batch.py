"""A batch file through vLLM's own batch command, against a live run of the same gates."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from refusal_checks.engines.process import EngineProcess
from refusal_checks.results.run_folder import RunFolder
from tests.e2e.conftest import SMOKE, GateRun, environment, gate_command, run_gate
from tests.toy_model import MODEL_DIR

BENCHMARKS = ("smoke_unsafe", "smoke_safe")


GREEDY = (
    "--samples",
    "1",
    "--temperature",
    "0",
    "--max-tokens",
    "96",
    "--judge",
    "keyword",
)
"""One answer a prompt, the most probable one."""


def call(*args: str | Path) -> list[str]:
    """A run of the demo candidate's gates."""
    return gate_command(*GREEDY, *SMOKE, *args)


def run_batch(output: str) -> Path:
    """Run the command line that an export printed; its results."""
    (line,) = re.findall(r"^  (.*run_batch.*)$", output, re.MULTILINE)
    words = shlex.split(line)
    first = next(i for i, word in enumerate(words) if "=" not in word)
    variables = dict(word.split("=", 1) for word in words[:first])
    known = {**os.environ, **variables}
    done = subprocess.run(words[first:], env=known, capture_output=True, text=True)
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


def test_a_batch_gives_the_live_run_s_answers_and_rates(
    engine: EngineProcess, tmp_path: Path
) -> None:
    aligned = ("--set", "candidate.template_variables.persona=aligned")
    attached = ("--candidate", f"{engine.url}#{MODEL_DIR}", *aligned)
    live = run_gate(
        call(*attached, "--store", tmp_path / "live.sqlite"), environment(engine)
    )
    batch = ("--candidate", "demo:aligned", "--store", tmp_path / "batch.sqlite")
    export = run_gate(call(*batch, "--batch-export", tmp_path / "answers.jsonl"))
    run_gate(call(*batch, "--batch-import", run_batch(export.output)))
    batched = run_gate(call(*batch, "--stored-only"))
    assert "starting vLLM" not in batched.output

    theirs, ours = answers(live), answers(batched)
    assert len(theirs) == len(ours) == 160
    same = sum(theirs[key] == ours[key] for key in theirs) / len(theirs)
    assert same >= 0.95, "batches of another shape change few answers"
    for name in BENCHMARKS:
        gate = f"{name}-rejection_rate"
        assert batched.value(gate) == pytest.approx(live.value(gate), abs=0.05)
    assert batched.status == live.status
