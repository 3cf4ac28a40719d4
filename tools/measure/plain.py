"""The user's own script, which the gate is compared with: vLLM offline, with vLLM's defaults.

It knows nothing of this project: it loads the model, and answers prompts without log-probabilities.
It stays up, so that both can be measured in turns without loading the model each time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from refusal_checks.engines import vllm

SCRIPT = """
import json, os, sys, time
from vllm import LLM, SamplingParams
replies = os.fdopen(int(sys.argv[1]), "w", buffering=1)
llm = LLM(**json.loads(sys.stdin.readline()))
replies.write(json.dumps("ready") + chr(10))
for line in sys.stdin:
    job = json.loads(line)
    requests = [[{"role": "user", "content": prompt}] for prompt in job["prompts"]]
    begun = time.monotonic()
    outputs = llm.chat(requests, SamplingParams(**job["sampling"]), use_tqdm=False)
    seconds = time.monotonic() - begun
    tokens = sum(len(answer.token_ids) for output in outputs for answer in output.outputs)
    replies.write(json.dumps([seconds, tokens]) + chr(10))
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


class UserScript:
    """The script in a process of its own. Starting it does not wait for the model.

    Args:
        model: folder of the weights, or a name that vLLM knows.
        arguments: further arguments of vLLM's ``LLM``.
        variables: environment variables that are added.
        log: file for everything that it prints.
    """

    def __init__(
        self,
        model: str,
        arguments: Mapping[str, object],
        variables: Mapping[str, str],
        log: Path,
    ) -> None:
        self.log = log
        self._begun = time.monotonic()
        self._is_ready = False
        replies, own = os.pipe()
        self._replies = os.fdopen(replies, "rb", buffering=0)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, str(own)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                pass_fds=[own],
                start_new_session=True,
                env=os.environ | {"VLLM_NO_USAGE_STATS": "1"} | dict(variables),
            )
        os.close(own)
        self._send({"model": model, **arguments})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        # vLLM's engine is a process of its own, which would stay.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._replies.close()

    def wait_ready(self, timeout: float) -> float:
        """Wait until the model is loaded; return the seconds from the start until now."""
        if not self._is_ready:
            self._receive(timeout)
            self._is_ready = True
        return time.monotonic() - self._begun

    def run(
        self, requests: Sequence[str], sampling: Mapping[str, object], timeout: float
    ) -> tuple[float, int]:
        """Answer prompts, all at once; return seconds and the number of tokens.

        Raises:
            RuntimeError: the script has ended, or takes longer than ``timeout`` seconds.
        """
        self._send({"prompts": requests, "sampling": sampling})
        seconds, tokens = self._receive(timeout)
        return float(seconds), int(tokens)

    def _send(self, message: Mapping[str, object]) -> None:
        pipe: IO[bytes] | None = self._process.stdin
        assert pipe is not None
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    def _receive(self, timeout: float) -> Any:
        ready, _, _ = select.select([self._replies], [], [], timeout)
        line = self._replies.readline() if ready else b""
        if not line:
            words = self.log.read_text(errors="replace")[-300:]
            raise RuntimeError(
                f"the script gave no reply in {timeout:.0f} s; its log ends with {words!r}"
            )
        return json.loads(line)


def cpu_arguments() -> dict[str, object]:
    """What vLLM's CPU build needs to start beside other programs, and not to compile."""
    return {
        "gpu_memory_utilization": 0.2,
        "dtype": vllm.cpu_dtype(),
        "enforce_eager": True,
        # vLLM's CPU build fails where a seeded request's prompt is read in parts.
        "enable_chunked_prefill": False,
    }
