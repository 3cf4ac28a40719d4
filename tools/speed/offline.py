"""vLLM's offline engine in a process of its own, with the arguments that the server would get.

``python -m tools.speed.offline JOB.json RESULT.json`` loads the model, does the job's stages one
after the other, and writes what it took.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refusal_checks.engines import kinds
from refusal_checks.engines.engine import Assignment, EngineSpec

ROOT = Path(__file__).parents[2]
SAME = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "min_tokens",
    "seed",
    "stop",
)
"""Fields that a request and vLLM's sampling parameters share."""

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """Requests for one model, offline.

    Attributes:
        spec: the engine that would serve it, and its place.
        stages: bodies of chat completions; each stage waits for the one before it.
        extra: arguments after the server's own.
    """

    spec: EngineSpec
    place: Assignment
    stages: Sequence[Sequence[Body]]
    extra: Sequence[str] = ()

    def done(self) -> Result:
        """Do it, in a process of its own.

        Raises:
            RuntimeError: the process failed; with the end of what it said.
        """
        engine = kinds.get(self.spec.engine)
        # Nothing else computes meanwhile.
        place = replace(self.place, threads=len(self.place.cores) or None)
        args = [*engine.arguments(self.spec, 0, place), *self.extra]
        environment = engine.environment("", self.spec, place)
        with tempfile.TemporaryDirectory() as name:
            given, told = Path(name, "job.json"), Path(name, "result.json")
            given.write_text(json.dumps({"args": args, "stages": self.stages}))
            command = [
                sys.executable,
                "-m",
                "tools.speed.offline",
                str(given),
                str(told),
            ]
            begun = time.monotonic()
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            wall = time.monotonic() - begun
            if done.returncode:
                raise RuntimeError(
                    f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
                )
            return Result(wall=wall, **json.loads(told.read_text()))


@dataclass(frozen=True)
class Result:
    """What an offline job took.

    Attributes:
        wall: seconds of the whole process.
        seconds: of the stages alone, rendering and tokenising included.
        prompt, output: tokens.
        texts: of all answers, by stage and request.
    """

    wall: float
    seconds: float
    prompt: int
    output: int
    texts: list[list[list[str]]]

    @property
    def load(self) -> float:
        """Seconds of all but the work: imports, the model's loading, the end of the process."""
        return self.wall - self.seconds


def main(job: Path, result: Path) -> None:
    """Do a job and write its result."""
    from vllm import LLM

    given = json.loads(job.read_text())
    stages = given["stages"]
    llm = LLM.from_engine_args(_engine_args(given["args"]))
    for body in (
        stages[0][0],
        stages[-1][-1],
    ):  # the first of a kind compiles its grammar
        _generate(llm, [{**body, "max_tokens": 2, "min_tokens": 0}])
    llm.reset_prefix_cache()
    begun = time.monotonic()
    done = [_generate(llm, stage) for stage in stages]
    seconds = time.monotonic() - begun
    outputs = [output for stage in done for output in stage]
    told = {
        "seconds": seconds,
        "prompt": sum(len(output.prompt_token_ids) for output in outputs),
        "output": sum(
            len(each.token_ids) for output in outputs for each in output.outputs
        ),
        "texts": [
            [[each.text for each in output.outputs] for output in stage]
            for stage in done
        ],
    }
    result.write_text(json.dumps(told))


def _generate(llm: Any, bodies: Sequence[Body]) -> Any:
    tokenizer = llm.get_tokenizer()
    prompts = [{"prompt_token_ids": _tokens(tokenizer, body)} for body in bodies]
    return llm.generate(prompts, list(map(_params, bodies)), use_tqdm=False)


def _tokens(tokenizer: Any, body: Body) -> list[int]:
    text = tokenizer.apply_chat_template(
        body["messages"],
        tokenize=False,
        add_generation_prompt=True,
        **body.get("chat_template_kwargs", {}),
    )
    found: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return found


def _params(body: Body) -> Any:
    """The sampling parameters that the server would make of a request."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    given = {name: body[name] for name in SAME if name in body}
    if named := body.get("logprob_token_ids"):
        given["logprob_token_ids"] = named
    elif body.get("logprobs"):
        given["logprobs"] = body.get("top_logprobs", 0)
    if "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
        given["structured_outputs"] = StructuredOutputsParams(json=schema)
    return SamplingParams(**given)


def _engine_args(args: Sequence[str]) -> Any:
    """The engine's part of a server's arguments; one copy of the model, all that it can run."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    kind: Any = FlexibleArgumentParser  # which has no types
    parser: Any = EngineArgs.add_cli_args(kind(allow_abbrev=False))
    found = EngineArgs.from_cli_args(parser.parse_known_args(list(args))[0])
    return dataclasses.replace(found, data_parallel_size=1, disable_log_stats=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
