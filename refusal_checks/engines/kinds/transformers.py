"""``transformers serve``: where vLLM has no wheel (macOS, ARM, a new Python); slow, no batching."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_checks.core.errors import ModelError
from refusal_checks.engines.devices import gpus
from refusal_checks.engines.engine import Assignment, Engine, EngineSpec
from refusal_checks.models.client.capabilities import Capabilities, Support

_FLAGS = {
    *(
        "--attn-implementation",
        "--chat-template-kwargs",
        "--compile",
        "--default-seed",
        "--device",
    ),
    *("--dtype", "--log-level", "--quantization", "--reasoning", "--trust-remote-code"),
}
"""The arguments that make sense here. Continuous batching is left out: with it, the sampling of
the first request holds for all others."""


class Transformers(Engine):
    title = "transformers"
    modules = ("transformers", "accelerate", "fastapi", "uvicorn", "openai")
    packages = ("transformers", "accelerate", "torch")
    remedy = 'pip install "refusal-checks[transformers]"'
    program = (sys.executable, "-m", "transformers.cli.transformers", "serve")
    # It generates one answer at a time, and a seed belongs to the whole server.
    at_once = 1
    loads_alone = False
    capabilities = Capabilities(
        n=Support.IGNORED,
        logprobs=Support.IGNORED,
        structured_outputs=Support.IGNORED,
        token_ids=Support.IGNORED,
    )

    def runs_on_cpu(self) -> bool:
        return gpus().kind != "gpu"

    def arguments(self, spec: EngineSpec, port: int, place: Assignment) -> list[str]:
        """The server's arguments, without a placement's sizes: accelerate spreads models."""
        address = ["--host", "127.0.0.1", "--port", str(port)]
        device = ["--device", "cpu" if self.runs_on_cpu() else "auto"]
        return [spec.model, *address, *device, *spec.args]

    def check(self, args: Sequence[str]) -> None:
        for argument in args:
            flag = argument.partition("=")[0]
            if (
                flag.startswith("-")
                and f"--{flag.lstrip('-').removeprefix('no-')}" not in _FLAGS
            ):
                raise ModelError(
                    f"--engine transformers: it has no argument {flag}, or not for this use; "
                    f"known: {', '.join(sorted(_FLAGS))}"
                )

    def require_silent(self, args: Sequence[str]) -> None:
        if {"debug", "trace", "--log-level=debug", "--log-level=trace"} & set(args):
            raise ModelError(
                "--redact: leave out --log-level: it may make it log prompts"
            )

    def variables(self, spec: EngineSpec, place: Assignment) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(place.threads)} if place.threads else {}

    def sequences(self, args: Sequence[str]) -> int:
        return 1

    def translate(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        # It refuses ``top_k``, and samples only if the model's own settings say so; a request's
        # ``generation_config`` says both.
        config = {
            "do_sample": True,
            "top_k": body.get("top_k", 0),
            "repetition_penalty": 1.0,
        }
        kept = {name: value for name, value in body.items() if name != "top_k"}
        return {**kept, "generation_config": json.dumps(config)}


ENGINE = Transformers()
