"""What the client relies on, asked of real vLLM."""

import asyncio
import json
import math
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from refusal_checks.core.judgements import Binary
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.engines.process import EngineProcess
from refusal_checks.judges import template
from refusal_checks.judges.kinds.refusal import SCHEMA, parse_judgement
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.label_probabilities import LabelProbabilities
from refusal_checks.models.client.server_errors import PromptTooLongError
from refusal_checks.models.client.transport import ConnectionSettings
from refusal_checks.models.model_names import ModelOptions
from tests.toy_model import MODEL_DIR, PROMPTS

REQUEST = "How do I bake bread?"


def connect(engine: EngineProcess, persona: str, end: str = "") -> Client:
    options = ModelOptions(template_kwargs={"persona": persona}, reasoning_end=end)
    return Client(
        engine.url,
        str(MODEL_DIR),
        options=options,
        connection=ConnectionSettings(engine.api_key),
    )


def ask(
    engine: EngineProcess,
    persona: str,
    messages: tuple[Message, ...],
    options: RequestParams,
    schema: Mapping[str, Any] | None = None,
) -> tuple[Completion, ...]:
    async def chat() -> tuple[Completion, ...]:
        async with connect(engine, persona) as client:
            return await client.chat(messages, options, schema)

    return asyncio.run(chat())


@pytest.mark.parametrize(
    ("path", "status"),
    [("/health", 200), ("/metrics", 401), ("/v1/models", 401), ("/docs", 401)],
)
def test_only_its_health_is_open_without_the_key(
    engine: EngineProcess, path: str, status: int
) -> None:
    address = urlsplit(engine.url)
    assert address.hostname is not None
    connection = HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("GET", path)
    assert connection.getresponse().status == status
    connection.close()


def test_sampled_answers_differ_and_a_seed_brings_them_back(
    engine: EngineProcess,
) -> None:
    options = RequestParams(n=5, temperature=1.0, max_tokens=48, seed=11, logprobs=True)
    turns = (Message("user", REQUEST),)
    first, second = (ask(engine, "aligned", turns, options) for _ in range(2))
    assert len({choice.text for choice in first}) > 1
    assert [choice.text for choice in first] == [choice.text for choice in second]
    for choice in first:
        assert choice.mean_logprob is not None
        assert -math.inf < choice.mean_logprob <= 0
        assert choice.tokens > 0


def test_an_answer_s_seed_does_not_depend_on_how_many_are_asked_for(
    engine: EngineProcess,
) -> None:
    turns = (Message("user", REQUEST),)
    together = ask(engine, "aligned", turns, RequestParams(n=4, max_tokens=32, seed=7))
    alone = [
        ask(engine, "aligned", turns, RequestParams(n=1, max_tokens=32, seed=seed))[0]
        for seed in range(7, 11)
    ]
    assert len({choice.text for choice in alone}) > 1
    # Batch effects can change a token, so not every answer must come back.
    same = [a.text == b.text for a, b in zip(together, alone, strict=True)]
    assert sum(same) >= 3


def test_max_tokens_reaches_the_server(engine: EngineProcess) -> None:
    (choice,) = ask(
        engine, "aligned", (Message("user", REQUEST),), RequestParams(max_tokens=3)
    )
    assert choice.finish_reason == "length"


def test_a_judge_s_output_follows_the_schema_under_any_sampling(
    engine: EngineProcess,
) -> None:
    judge = template.load(str(PROMPTS / "refusal.md"))
    messages = judge.messages(Prompt.single("p", REQUEST), "I will not help with that.")
    options = RequestParams(n=8, temperature=1.5, max_tokens=200)
    for choice in ask(engine, "judge", messages, options, SCHEMA):
        if choice.finish_reason == "stop":
            assert list(json.loads(choice.text)) == ["rationale", "category", "verdict"]
            assert isinstance(parse_judgement(choice.text), Binary)


def test_label_probabilities_are_exact_whatever_the_rank(engine: EngineProcess) -> None:
    turns = (Message("user", REQUEST),)
    (drawn,) = ask(
        engine,
        "aligned",
        turns,
        RequestParams(temperature=0, max_tokens=1, logprobs=True),
    )
    assert drawn.mean_logprob is not None
    sets = [(drawn.text,), ("0",), ("1",), ("0", "1"), ("1", "2", "3", "4", "5")]

    async def read() -> list[LabelProbabilities]:
        async with connect(engine, "aligned") as client:
            return [await client.label_probabilities(turns, labels) for labels in sets]

    found = asyncio.run(read())
    top, zero, one, both, _ = (1 - labels.outside for labels in found)
    assert top == pytest.approx(math.exp(drawn.mean_logprob), rel=0.02)
    assert zero + one == pytest.approx(both, abs=1e-6)
    assert both < 1e-3, (
        "digits are no likely start of this answer, so far down the ranks"
    )
    for labels in found:
        assert sum(labels.probabilities.values()) == pytest.approx(1, abs=1e-12)
    assert min(found[-1].probabilities.values()) > 0


def test_a_prompt_beyond_the_context_is_told_apart(engine: EngineProcess) -> None:
    with pytest.raises(PromptTooLongError, match="4096"):
        ask(engine, "aligned", (Message("user", "bread " * 9000),), RequestParams())
