"""Compare the gate with what a user would write instead: vLLM offline, with vLLM's defaults.

The script (``SCRIPT``) knows nothing of this project: it loads the model, asks for K answers to
each prompt at once, without log-probabilities, and stops. The gate answers the same prompts with
the same sampling settings, judged by ``keyword``, so that both generate with one model alone. Both
draw their own answers, so seconds are given for 1,000 tokens.

``python -m tools.measure.plain [--model M] [--prompts N] [--samples K ...] [--turns T]``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from refusal_checks.core.sampling import Sampling
from refusal_checks.engines.kinds import vllm
from refusal_checks.models.names import Served, parse_candidate
from tools.measure.gate import evaluated
from tools.measure.printing import by_turns, circumstances, say

SCRIPT = """
import json, sys, time
from vllm import LLM, SamplingParams
job = json.load(open(sys.argv[1]))
llm = LLM(job["model"], **job["arguments"])
requests = [[{"role": "user", "content": prompt}] for prompt in job["prompts"]]
llm.chat(requests[:2], SamplingParams(max_tokens=2), use_tqdm=False)
results = []
for k in job["samples"]:
    begun = time.monotonic()
    outputs = llm.chat(requests, SamplingParams(n=k, **job["sampling"]), use_tqdm=False)
    seconds = time.monotonic() - begun
    tokens = sum(len(answer.token_ids) for output in outputs for answer in output.outputs)
    results.append([seconds, tokens])
json.dump(results, open(sys.argv[2], "w"))
"""

TOPICS = ("bread", "rivers", "bicycles", "chess", "violins", "bees", "glass", "maps")


def prompts(count: int) -> list[str]:
    """Make harmless prompts, all of them different."""
    requests = []
    for number in range(count):
        topic = TOPICS[number % len(TOPICS)]
        requests.append(
            f"Explain in a few paragraphs fact number {number} about {topic}."
        )
    return requests


def weights(model: str) -> str:
    """The folder or name that vLLM loads for a candidate, once an evaluation has prepared it."""
    candidate = parse_candidate(model)
    assert isinstance(candidate, Served), "an engine is started for it"
    return candidate.path


def offline(
    folder: Path, model: str, requests: Sequence[str], samples: Sequence[int], most: int
) -> list[float]:
    """Seconds for 1,000 tokens with the user's script, for each K.

    Args:
        model: folder of the weights, or a name that vLLM knows.
        most: most tokens of an answer.
    """
    arguments: dict[str, object] = {}
    if vllm.runs_on_cpu():
        # What vLLM needs to start beside other programs, and not to compile for half a minute.
        arguments = {
            "gpu_memory_utilization": 0.4,
            "dtype": vllm.cpu_dtype(),
            "enforce_eager": True,
        }
    sampling = Sampling(max_tokens=most)
    names = ("temperature", "top_p", "top_k", "max_tokens", "seed")
    job = {
        "model": model,
        "prompts": requests,
        "samples": samples,
        "sampling": {name: getattr(sampling, name) for name in names},
        "arguments": arguments,
    }
    job_file = folder / "job.json"
    results = folder / "results.json"
    job_file.write_text(json.dumps(job))
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with (folder / "offline.log").open("a") as log:
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(job_file), str(results)],
            cwd=folder,
            env=environment | os.environ,
            stdout=log,
            stderr=log,
            check=True,
        )
    return [
        1000 * seconds / tokens for seconds, tokens in json.loads(results.read_text())
    ]


def measure(
    model: str,
    count: int,
    samples: Sequence[int],
    most: int,
    logprobs: Sequence[str],
    turns: int,
) -> dict[str, list[float]]:
    """Ratios of the gate's time to the user's script's, by turns.

    Args:
        count: number of prompts.
        logprobs: values of ``sampling.logprobs`` to measure the gate with.
    """
    requests = prompts(count)
    ratios: dict[str, list[float]] = {}
    for number in range(turns):
        say(f"turn {number + 1} of {turns}")
        gates: dict[tuple[int, str], float] = {}
        for k in samples:
            for when in logprobs:
                keys = {
                    "sampling.samples": k,
                    "sampling.logprobs": when,
                    "sampling.max_tokens": most,
                }
                with tempfile.TemporaryDirectory() as name:
                    spent = evaluated(Path(name), requests, model, "keyword", keys)
                gates[k, when] = 1000 * spent.seconds / spent.tokens
        with tempfile.TemporaryDirectory() as name:
            scripts = offline(Path(name), weights(model), requests, samples, most)
        for k, script in zip(samples, scripts, strict=True):
            for when in logprobs:
                gate = gates[k, when]
                say(
                    f"  K = {k}, logprobs {when}: {gate:.2f} / {script:.2f} s for 1,000 tokens"
                )
                ratios.setdefault(f"K = {k}, logprobs {when}", []).append(gate / script)
    return ratios


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.plain", description=__doc__
    )
    parser.add_argument(
        "--model", default="demo:base", help="a folder, ORG/MODEL, demo:NAME"
    )
    parser.add_argument("--prompts", type=int, default=120)
    parser.add_argument("--samples", type=int, nargs="+", default=[2, 5], metavar="K")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer, at most")
    parser.add_argument("--logprobs", nargs="+", default=["disputed", "always"])
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    say(circumstances("tools.measure.plain"))
    ratios = measure(
        given.model,
        given.prompts,
        given.samples,
        given.tokens,
        given.logprobs,
        given.turns,
    )
    say("\n" + by_turns("gate / a user's script", ratios, 2))


if __name__ == "__main__":
    main()
