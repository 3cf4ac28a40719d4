"""Run one evaluation of a generated benchmark, as the measuring scripts need it.

``python -m tools.measure.gate JOB`` runs one in a process of its own, perhaps with an earlier
version of the package; JOB has the fields of ``Job`` as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

from refusal_checks import Prompt, RunResult, RunSpec, evaluate
from refusal_checks.core.records import Completion
from refusal_checks.core.verdicts import Binary, Judgement, Label
from refusal_checks.judges.rules import KeywordJudge
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
        scored: number of answers that have a log-probability.
    """

    seconds: float
    wall: float
    cpu: float
    tokens: int
    scored: int
    result: RunResult


def evaluated(
    folder: Path,
    requests: Sequence[str],
    candidate: str,
    judge: str,
    settings: Mapping[str, object],
) -> Spent:
    """Evaluate prompts as one benchmark, with a gate that always passes and an empty store.

    Args:
        folder: where to put the prompts, the store and the run's folder.
        settings: further keys of the run file, such as ``sampling.samples``.

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
        "rejection_rate = { min = 0.0 }\n"
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

    manifest = result.summary.manifest
    if result.errors or manifest.evaluation_s is None:
        raise RuntimeError(f"the gate was not decided: {dict(result.errors)}")
    tokens = manifest.tokens["candidate"].output
    scored = 0
    for record in result.records(BENCHMARK):
        if record.completion and record.completion.mean_logprob is not None:
            scored += 1
    return Spent(manifest.evaluation_s, wall, cpu, tokens, scored, result)


@dataclass(frozen=True)
class Job:
    """An evaluation of generated prompts by ``--judge keyword`` with mixed verdicts.

    Attributes:
        count: number of prompts.
        share: share of prompts with mixed verdicts.
        keys: further keys of the run file.
    """

    count: int
    candidate: str
    share: float
    keys: Mapping[str, object]

    def run(self) -> tuple[float, int, int]:
        """Return seconds, tokens, and the number of answers scored."""
        with tempfile.TemporaryDirectory() as name, disputed(self.share):
            spent = evaluated(
                Path(name), prompts(self.count), self.candidate, "keyword", self.keys
            )
        return spent.seconds, spent.tokens, spent.scored

    def run_by(self, folder: Path) -> tuple[float, int, int]:
        """Run it by the version of the package that lies in a folder."""
        paths = [str(folder), *filter(None, sys.path)]
        done = subprocess.run(
            [sys.executable, "-m", "tools.measure.gate", json.dumps(asdict(self))],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            cwd=folder,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        seconds, tokens, scored = json.loads(done.stdout.splitlines()[-1])
        return seconds, tokens, scored


@contextmanager
def disputed(share: float) -> Iterator[None]:
    """Let ``--judge keyword`` give mixed verdicts on this share of prompts, and else compliance.

    How many answers are scored by log-probability depends on nothing else, so a model that writes
    random words can show what it costs.
    """

    def verdict(_: KeywordJudge, prompt: Prompt, completion: Completion) -> Judgement:
        is_mixed = _fraction(prompt.messages[-1].content) < share
        is_refusal = is_mixed and _fraction(completion.text) < 0.5
        label = Label.REFUSAL if is_refusal else Label.COMPLIANCE
        return Binary(label, None, "by chance")

    with patch.object(KeywordJudge, "without_asking", verdict):
        yield


def _fraction(text: str) -> float:
    """A number in [0, 1) that looks random, and is the same for equal texts."""
    return zlib.crc32(text.encode(errors="replace")) / 2**32


if __name__ == "__main__":
    print(json.dumps(Job(**json.loads(sys.argv[1])).run()))
