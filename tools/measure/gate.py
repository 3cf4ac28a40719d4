"""Run one evaluation of a generated benchmark, as the measuring scripts need it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks import RunResult, RunSpec, evaluate
from tools.measure.plain import prompts

BENCHMARK = "measured"


@dataclass(frozen=True)
class Spent:
    """The cost of an evaluation.

    Attributes:
        seconds: from the first request to the last verdict; engines are up by then.
        wall: seconds of the whole call, loading included.
        cpu: seconds of this process.
        tokens: tokens of the candidate's answers.
    """

    seconds: float
    wall: float
    cpu: float
    tokens: int
    result: RunResult


def evaluated(
    folder: Path,
    requests: Sequence[str],
    candidate: str,
    judge: str,
    settings: Mapping[str, object],
    metric: str = "rejection_rate",
) -> Spent:
    """Evaluate prompts as one benchmark, with a gate that always passes and an empty store.

    Args:
        folder: where to put the prompts, the store and the run's folder.
        settings: further keys of the run file, such as ``sampling.samples``.
        metric: what the gate bounds; one of refusal confidence needs log-probabilities.

    Raises:
        RuntimeError: the gate could not be decided.
    """
    rows = []
    for number, prompt in enumerate(requests):
        rows.append(json.dumps({"id": f"p{number}", "prompt": prompt}))
    (folder / "prompts.jsonl").write_text("\n".join([*rows, ""]))
    run_file = folder / "measure.toml"
    run_file.write_text(
        f'[{BENCHMARK}]\nfile = "prompts.jsonl"\nid = "id"\nexpect = "report"\n'
        f"{metric} = {{ min = 0.0 }}\n"
    )
    spec = RunSpec.read(run_file)
    keys = {
        "candidate.model": candidate,
        "judge.model": judge,
        "store.file": str(folder / "store.sqlite"),
        "store.fresh": True,
        "reports.runs": str(folder / "runs"),
        "trust.allow_untrusted_judge": True,
    }
    for key, value in {**keys, **settings}.items():
        spec = spec.with_value(key, value)

    cpu = time.process_time()
    begun = time.monotonic()
    result = evaluate(spec)
    wall = time.monotonic() - begun
    cpu = time.process_time() - cpu

    execution = result.summary.execution
    if result.errors or execution.seconds is None:
        raise RuntimeError(f"the gate was not decided: {dict(result.errors)}")
    tokens = execution.tokens["candidate"].output
    return Spent(execution.seconds, wall, cpu, tokens, result)


@dataclass(frozen=True)
class Job:
    """An evaluation of generated prompts by ``--judge keyword``.

    Attributes:
        count: number of prompts.
        metric: what the gate bounds.
        keys: further keys of the run file.
    """

    count: int
    candidate: str
    metric: str
    keys: Mapping[str, object]

    def run(self) -> tuple[float, int]:
        """Return seconds and tokens."""
        with tempfile.TemporaryDirectory() as name:
            spent = evaluated(
                Path(name),
                prompts(self.count),
                self.candidate,
                "keyword",
                self.keys,
                self.metric,
            )
        return spent.seconds, spent.tokens
