"""The functions of the script for Ray, docs/how-to/ray_batch.py: requests in, results out."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.prompts import Message
from refusal_checks.engines.batch.inbox import custom_id, read_result
from refusal_checks.models.client.client import Client, RequestParams

SCRIPT = Path(__file__).parents[4] / "docs" / "how-to" / "ray_batch.py"
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    **RequestParams(
        n=2, temperature=0.6, max_tokens=3, seed=7, logprobs=True, stop=("x",)
    ).body,
}
ROW = {"text": json.dumps({"custom_id": custom_id(BODY), "body": BODY})}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The script's names."""
    found: dict[str, Any] = {"__name__": "script"}
    exec(compile(SCRIPT.read_text(), SCRIPT.name, "exec"), found)
    return found


def answered(row: dict[str, Any], text: str) -> dict[str, Any]:
    """A row as the engine's stage leaves it."""
    tokens = [
        {n: {"logprob": -0.5, "decoded_token": word}}
        for n, word in enumerate(text.split())
    ]
    made = {
        "generated_text": text,
        "num_generated_tokens": len(tokens),
        "logprobs": tokens,
    }
    return {**row, **made}


def prepared(
    script: dict[str, Any], body: dict[str, Any], index: int = 0
) -> dict[str, Any]:
    """What the engine is asked by a request; the tokens are those of a tokenizer that tells all."""

    class Telling:
        def apply_chat_template(self, messages: Any, **options: Any) -> Any:
            return messages, options

    script["tokenizer"] = lambda model: Telling()
    found: dict[str, Any] = script["prepare"](
        {"index": index, "body": json.dumps(body)}, "m"
    )
    return found


def test_each_answer_is_asked_for_with_its_own_seed(script: dict[str, Any]) -> None:
    rows = [prepared(script, BODY, row["index"]) for row in script["expand"](ROW)]
    asked = [row["sampling_params"] for row in rows]
    assert [params["seed"] for params in asked] == [7, 8]
    assert asked[0]["temperature"] == 0.6
    assert asked[0]["stop"] == ["x"]
    assert asked[0]["logprobs"] == 0
    messages, options = rows[0]["tokenized_prompt"]
    assert messages == BODY["messages"]
    assert options["add_generation_prompt"]
    assert not options["continue_final_message"]


def test_a_template_s_variables_a_schema_and_an_answer_that_has_begun(
    script: dict[str, Any],
) -> None:
    params = RequestParams(schema={"type": "object"}, is_continued=True)
    row = prepared(
        script, {**BODY, **params.body, "chat_template_kwargs": {"persona": "p"}}
    )
    asked = row["sampling_params"]["structured_outputs"]
    assert json.loads(asked["json"]) == {"type": "object"}
    _, options = row["tokenized_prompt"]
    assert options["persona"] == "p"
    assert not options["add_generation_prompt"]
    assert options["continue_final_message"]


def test_the_client_reads_the_results(script: dict[str, Any]) -> None:
    pair, texts = script["expand"](ROW), ("a b", "a b c")
    rows = [answered(row, text) for row, text in zip(pair, texts, strict=True)]
    found = read_result(
        script["result"](custom_id(BODY), list(map(script["choice"], rows))).encode()
    )
    assert found.id == custom_id(BODY)

    class Recorded:
        async def post(self, path: str, body: Any) -> Any:
            return found.body

    client = Client("http://x/v1", "m", transport=Recorded())
    choices = asyncio.run(client.chat((Message("user", "hello"),), RequestParams(n=2)))
    assert [(choice.text, choice.finish_reason) for choice in choices] == [
        ("a b", "stop"),
        ("a b c", "length"),
    ]
    assert [choice.mean_logprob for choice in choices] == [-0.5, -0.5]


def test_what_the_engine_did_not_answer_has_failed(script: dict[str, Any]) -> None:
    rows = script["expand"](ROW)
    choices = [script["choice"](answered(rows[0], "a")), script["choice"](rows[1])]
    found = read_result(script["result"]("a", choices).encode())
    assert (found.id, found.fault) == ("a", "failed")
