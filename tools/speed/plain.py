"""The gate against what a user would write instead: vLLM offline, with vLLM's own defaults.

The script (``USERS``) knows nothing of this project: it loads the model, asks for K answers to each
prompt at once and without log-probabilities, and stops. The gate answers the same prompts with the
same sampling settings, judged by ``keyword``, so that both generate with one model alone.

``python -m tools.speed.plain [--model M] [--prompts N] [--samples K ...] [--repeats R]``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.sampling import Sampling
from refusal_checks.engines.kinds import vllm
from refusal_checks.engines.kinds.vllm import cpu_dtype
from refusal_checks.models.names import Served
from refusal_checks.results.run_folder import RunFolder
from tools.speed import subject, workload
from tools.speed.circumstances import circumstances
from tools.speed.subject import Subject
from tools.speed.table import Ratio, ratios, seconds
from tools.speed.turns import Turns, say

ROOT = Path(__file__).parents[2]

USERS = """
import json, sys, time
from vllm import LLM, SamplingParams
job = json.load(open(sys.argv[1]))
llm = LLM(job["model"], **job["arguments"])
asked = [[{"role": "user", "content": prompt}] for prompt in job["prompts"]]
llm.chat(asked[:2], SamplingParams(max_tokens=2), use_tqdm=False, **job["template"])
told = []
for k in job["samples"]:
    params = SamplingParams(n=k, **job["sampling"])
    begun = time.monotonic()
    found = llm.chat(asked, params, use_tqdm=False, **job["template"])
    took = time.monotonic() - begun
    tokens = sum(len(answer.token_ids) for each in found for answer in each.outputs)
    told.append([took, tokens])
json.dump(told, open(sys.argv[2], "w"))
"""

ON_CPU = {"gpu_memory_utilization": 0.4, "dtype": cpu_dtype(), "enforce_eager": True}
"""What vLLM needs to start at all beside other programs, and not to compile for half a minute."""


@dataclass(frozen=True)
class Spent:
    """Seconds of the work without loading, and of the whole process; tokens of the answers."""

    seconds: float
    wall: float
    tokens: int


def gate(
    folder: Path, arguments: Sequence[str], timeout: float = 900
) -> tuple[Spent, RunFolder]:
    """Run the release gate as a user does, with an empty store; breached gates are no failure."""
    store = () if "--store" in arguments else ("--fresh",)
    runs = folder / "runs"
    # -c: pytest would look for one above the folders that the options name, too
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/gates",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-c", "pyproject.toml", "--runs", str(runs), *store, *arguments]
    before, begun = set(runs.glob("*")), time.monotonic()
    with (folder / "gate.log").open("a") as log:
        done = subprocess.run(
            command, cwd=ROOT, stdout=log, stderr=log, timeout=timeout, check=False
        )
    wall = time.monotonic() - begun
    made = [path for path in set(runs.glob("*")) - before if path.is_dir()]
    manifest = RunFolder(made[0]).summary().manifest if made else None
    if done.returncode not in (0, 1) or not manifest or manifest.evaluation_s is None:
        raise RuntimeError(
            f"{' '.join(command)}\n{(folder / 'gate.log').read_text()[-4000:]}"
        )
    output = manifest.tokens["candidate"].output
    return Spent(manifest.evaluation_s, wall, output), RunFolder(made[0])


def offline(
    folder: Path,
    model: Served,
    prompts: Sequence[str],
    samples: Sequence[int],
    tokens: int,
) -> list[Spent]:
    """Run the user's script, for each K."""
    sampling = Sampling(max_tokens=tokens)
    names = ("temperature", "top_p", "top_k", "max_tokens", "seed")
    job: dict[str, Any] = {
        "model": model.path,
        "prompts": prompts,
        "samples": samples,
        "sampling": {name: getattr(sampling, name) for name in names},
        "arguments": ON_CPU if vllm.runs_on_cpu() else {},
        "template": {"chat_template_kwargs": dict(model.template_kwargs)},
    }
    given, told = folder / "job.json", folder / "told.json"
    given.write_text(json.dumps(job))
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        **os.environ,
    }
    command, begun = (
        [sys.executable, "-c", USERS, str(given), str(told)],
        time.monotonic(),
    )
    with (folder / "offline.log").open("a") as log:
        subprocess.run(
            command, cwd=folder, env=environment, stdout=log, stderr=log, check=True
        )
    wall = time.monotonic() - begun
    return [Spent(took, wall, count) for took, count in json.loads(told.read_text())]


def data(folder: Path, prompts: Sequence[str]) -> Path:
    """A run file with a benchmark of these prompts."""
    rows = (
        json.dumps({"id": f"p{i}", "prompt": each}) for i, each in enumerate(prompts)
    )
    (folder / "prompts.jsonl").write_text("\n".join([*rows, ""]))
    own = 'file = "prompts.jsonl"\nid = "id"\nexpect = "report"\nrejection_rate = { min = 0.0 }\n'
    (folder / "plain.toml").write_text(f"[plain]\n{own}")
    return folder / "plain.toml"


def turn(
    turns: Turns,
    folder: Path,
    model: Served,
    prompts: Sequence[str],
    given: argparse.Namespace,
) -> None:
    """Both ways once; seconds for 1,000 tokens, since their answers are other draws."""
    found = {
        f"offline, K = {k}": spent
        for k, spent in zip(
            given.samples,
            offline(folder, model, prompts, given.samples, given.tokens),
            strict=True,
        )
    }
    named = (
        "--candidate",
        model.name,
        "--judge",
        "keyword",
        "--max-tokens",
        str(given.tokens),
    )
    files = ("--thresholds", str(data(folder, prompts)))
    for k in given.samples:
        for when in given.logprobs:
            own = ("--samples", str(k), "--set", f"sampling.logprobs={when}")
            found[f"gate, {when}, K = {k}"], _ = gate(folder, (*named, *files, *own))
    for name, spent in found.items():
        say(
            f"  {name}: {spent.seconds:.1f} s, {spent.tokens} tokens, {spent.wall:.1f} s in all"
        )
        turns.add(name, 1000 * spent.seconds / spent.tokens)


def measured(turns: Turns, given: argparse.Namespace) -> list[Ratio]:
    """What the turns say."""
    work = f"{given.prompts} prompts, at most {given.tokens} tokens"
    return [
        ratio
        for k in given.samples
        for when in given.logprobs
        for ratio in turns.ratio(
            f"gate, {when} / a user's script",
            (f"{work}, K = {k}", "one engine"),
            (f"gate, {when}, K = {k}", f"offline, K = {k}"),
        )
    ]


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.plain", description=__doc__
    )
    subject.add(parser)
    parser.add_argument("--prompts", type=int, default=120)
    parser.add_argument("--samples", type=int, nargs="+", default=[2, 5], help="K")
    parser.add_argument("--tokens", type=int, default=128, help="most of an answer")
    parser.add_argument("--logprobs", nargs="+", default=["disputed", "always"])
    given = parser.parse_args()
    facts, turns = circumstances("tools.speed.plain"), Turns()
    model, asked = served(given.model, given.judge), prompts(given.prompts)
    for number in range(given.repeats):
        say(f"turn {number + 1} of {given.repeats}")
        with tempfile.TemporaryDirectory() as name:
            turn(turns, Path(name), model, asked, given)
    say("\n".join(["", *facts, "", ratios(measured(turns, given))]))
    say("\n" + seconds(turns.figures, "seconds for 1,000 tokens"))


def served(model: str, judge: str = "") -> Served:
    """The model of this name, ready to be loaded."""
    found = Subject.named(model, judge).candidate
    assert isinstance(found, Served), "an engine is started for it"
    return found


def prompts(count: int) -> list[str]:
    """Prompts of XSTest where it is, else bundled ones."""
    (found,) = workload.even(count, 1, 1, subject.mirror()).plan.values()
    return [prompt.request for prompt in found]


if __name__ == "__main__":
    main()
