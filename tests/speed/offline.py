"""The offline floor: the same requests given to vLLM's ``LLM.chat``, engine time only.

``python -m tests.speed.offline REQUESTS.jsonl TIMES`` prints the seconds of each time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from refusal_checks.engines.kinds.vllm import STRUCTURED_OUTPUTS, runs_on_cpu
from tests.toy_model import MODEL_DIR

FIELDS = ("n", "temperature", "top_p", "top_k", "max_tokens", "min_tokens", "seed", "stop")


def main(path: Path, times: int) -> None:
    """Measure and print, one line a time."""
    from vllm import LLM

    bodies = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    cpu: dict[str, Any] = {
        "dtype": "bfloat16",
        "enforce_eager": True,
        "enable_chunked_prefill": False,
        "distributed_executor_backend": "uni",
    }
    llm = LLM(
        str(MODEL_DIR),
        structured_outputs_config=json.loads(STRUCTURED_OUTPUTS),
        **(cpu if runs_on_cpu() else {}),
    )
    personas: dict[str, list[Any]] = {}
    for body in bodies:
        personas.setdefault(json.dumps(body["chat_template_kwargs"]), []).append(body)
    for _ in range(times):
        llm.reset_prefix_cache()
        begun = time.monotonic()
        for kwargs, asked in personas.items():
            llm.chat(
                [body["messages"] for body in asked],
                [_params(body) for body in asked],
                chat_template_kwargs=json.loads(kwargs),
                use_tqdm=False,
            )
        print(f"seconds {time.monotonic() - begun}", flush=True)


def _params(body: dict[str, Any]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    given = {name: body[name] for name in FIELDS if name in body}
    if body.get("logprobs"):
        given["logprobs"] = 0
    if "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
        given["structured_outputs"] = StructuredOutputsParams(json=schema)
    return SamplingParams(**given)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
