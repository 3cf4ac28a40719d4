"""Answer batch requests with Ray Data.

python ray_batch.py REQUESTS.jsonl RESULTS.jsonl MODEL [MORE]

MORE: further fields of vLLMEngineProcessorConfig, as JSON.
"""

import functools
import json
import sys
from collections import defaultdict
from pathlib import Path

FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "stop")
# In every row: Ray turns whole numbers that some rows lack into floats, which end vLLM's engine.
USUAL = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "logprobs": 0}
CONTINUED = {"add_generation_prompt": True, "continue_final_message": False}


def expand(row):
    """One row for each answer of a request."""
    request = json.loads(row["text"])
    count = request["body"].get("n", 1)
    return [
        {
            "custom_id": request["custom_id"],
            "index": index,
            "n": count,
            "body": json.dumps(request["body"]),
        }
        for index in range(count)
    ]


TOKENIZERS = {}  # what Ray sends to its workers cannot be a cached function


def tokenizer(model):
    from transformers import AutoTokenizer

    if model not in TOKENIZERS:
        TOKENIZERS[model] = AutoTokenizer.from_pretrained(model)
    return TOKENIZERS[model]


def prepare(row, model):
    """Add the prompt's tokens, as vLLM's server makes them, and the sampling parameters."""
    body = json.loads(row["body"])
    params = {**USUAL, **{name: body[name] for name in FIELDS if name in body}}
    params["seed"] = body.get("seed", 0) + row["index"]
    if body.get("logprobs"):
        params["logprobs"] = body.get("top_logprobs", 0)
    if "response_format" in body:
        schema = json.dumps(body["response_format"]["json_schema"]["schema"])
        params["structured_outputs"] = {"json": schema}
    begun = {name: body.get(name, usual) for name, usual in CONTINUED.items()}
    tokens = tokenizer(model).apply_chat_template(
        body["messages"],
        return_dict=False,
        **begun,
        **body.get("chat_template_kwargs", {}),
    )
    return {**row, "tokenized_prompt": tokens, "sampling_params": params}


def choice(row):
    """Build a choice of a chat completion; None if the engine gave no answer."""
    count = row.get("num_generated_tokens") or 0
    if not count:
        return None
    body = json.loads(row["body"])
    cut = count >= body.get("max_tokens", sys.maxsize)
    given = (row.get("logprobs") or []) if body.get("logprobs") else []
    listed = []
    for candidates in given:
        # The first of a position's candidates is the token that was drawn.
        for token in list(candidates.values())[:1]:
            listed.append(
                {"token": token["decoded_token"] or "", "logprob": token["logprob"]}
            )
    return {
        "index": row["index"],
        "finish_reason": "length" if cut else "stop",
        "message": {"role": "assistant", "content": row["generated_text"]},
        "logprobs": {"content": listed} if listed else None,
    }


def result(custom_id, choices):
    """A line of the results."""
    if None in choices:
        return json.dumps(
            {
                "custom_id": custom_id,
                "response": None,
                "error": "the engine gave no answer",
            }
        )
    response = {"status_code": 200, "body": {"choices": choices}}
    return json.dumps({"custom_id": custom_id, "response": response, "error": None})


def main(requests, results, model, more="{}"):
    import ray
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    given = {
        "concurrency": 4,
        "batch_size": 64,
        "engine_kwargs": {},
        **json.loads(more),
    }
    whitespace = {"backend": "xgrammar", "disable_any_whitespace": True}
    given["engine_kwargs"] = {
        "max_model_len": -1,  # as much as fits
        "generation_config": "vllm",
        "structured_outputs_config": whitespace,
        **given["engine_kwargs"],
    }
    config = vLLMEngineProcessorConfig(
        model_source=model,
        chat_template_stage=False,  # ``prepare`` does both
        tokenize_stage=False,
        detokenize_stage=False,  # the engine does it
        should_continue_on_error=True,
        **given,
    )
    rows = ray.data.read_text(requests).flat_map(expand)
    processor = build_processor(
        config,
        preprocess=functools.partial(prepare, model=model),
        postprocess=lambda row: row,
    )
    waiting = defaultdict(dict)
    with Path(results).open("w") as file:
        for row in processor(rows).iter_rows():
            arrived = waiting[row["custom_id"]]
            arrived[row["index"]] = choice(row)
            if len(arrived) == row["n"]:
                choices = [arrived[index] for index in range(row["n"])]
                print(result(row["custom_id"], choices), file=file, flush=True)
                del waiting[row["custom_id"]]


if __name__ == "__main__":
    main(*sys.argv[1:])
