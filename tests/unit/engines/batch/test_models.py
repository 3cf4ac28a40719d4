"""Models fed with batch files: one file a server, and the command that runs it."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.engines.batch.files import ResultLine, custom_id
from refusal_checks.engines.batch.models import BatchModels, DeferredError
from refusal_checks.models.client import errors
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.spec import Attached, Served

TURNS = (Message("user", "hello"),)
URL = "http://127.0.0.1:9/v1"


@pytest.fixture
def models(tmp_path: Path) -> Iterator[BatchModels]:
    found = BatchModels(tmp_path / "store.sqlite", tmp_path / "out.jsonl")
    yield found
    found.close()


def ask(client: Client, n: int = 1) -> list[str]:
    async def chat() -> list[str]:
        async with client:
            return [choice.text for choice in await client.chat(TURNS, RequestParams(n=n))]

    return asyncio.run(chat())


def answered(*texts: str) -> dict[str, object]:
    return {
        "choices": [
            {"index": i, "finish_reason": "stop", "message": {"content": text}}
            for i, text in enumerate(texts)
        ]
    }


def test_a_request_without_a_result_is_written_once(models: BatchModels, tmp_path: Path) -> None:
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    for _ in range(2):
        with pytest.raises(DeferredError):
            ask(client)
    assert models.waiting == 1
    (written,) = models.publish()
    (request,) = map(json.loads, written.path.read_text().splitlines())
    assert request["custom_id"] == custom_id(request["body"])
    assert request["body"]["model"] == "fake"
    assert (written.requests, written.models, written.command) == (1, ("x",), "")
    assert [path.name for path in tmp_path.glob("out*")] == ["out.jsonl"]


def test_a_result_answers_its_request_and_one_with_too_few_choices_does_not(
    models: BatchModels,
) -> None:
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    with pytest.raises(DeferredError):
        ask(client, 2)
    (written,) = models.publish()
    request_id = json.loads(written.path.read_text())["custom_id"]
    models.results.take([ResultLine(request_id, answered("one"))])
    with pytest.raises(DeferredError):
        ask(client, 2)
    assert (models.unfit, models.waiting) == (1, 1)
    models.results.clear()
    models.results.take([ResultLine(request_id, answered("one", "two"))])
    assert ask(client, 2) == ["one", "two"]


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": "yes"}, "finish_reason": "abort"},
        {"message": {"content": "yes"}, "finish_reason": None},
        {"message": {"content": 7}, "finish_reason": "stop"},
        {
            "message": {"content": "yes"},
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "yes"}]},
        },
    ],
)
def test_a_result_that_is_broken_off_or_malformed_leaves_its_request_pending(
    models: BatchModels, choice: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(seconds: float) -> None:
        pytest.fail("no second look at a file helps")

    monkeypatch.setattr(errors, "sleep", never)
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    body = {"model": "fake", "messages": [{"role": "user", "content": "hello"}]}
    request_id = custom_id(body | RequestParams().body())
    models.results.take([ResultLine(request_id, {"choices": [choice]})])
    for _ in range(2):
        with pytest.raises(DeferredError):
            ask(client)
    assert (models.unfit, models.waiting) == (1, 1)
    (written,) = models.publish()
    assert json.loads(written.path.read_text())["custom_id"] == request_id


def test_each_server_has_its_file_and_models_of_one_server_share_it(
    models: BatchModels, tmp_path: Path
) -> None:
    engine = Served("candidate", "/models/a", ("--max-model-len", "4096"))
    judge = Served("judge", "/models/a", ("--max-model-len", "4096"), {"persona": "judge"})
    other = Served("other", "/models/it's b")
    for model in (other, engine, judge):
        with pytest.raises(DeferredError):
            ask(models.connect(model, "--judge"))
    first, second = models.publish()
    assert (first.path.name, first.models, first.requests) == ("out.jsonl", ("other",), 1)
    assert (second.path.name, second.models) == ("out-2.jsonl", ("candidate", "judge"))
    assert second.requests == 2
    words = [word for word in shlex.split(first.command) if "=" not in word]
    assert "vllm.entrypoints.openai.run_batch" in words
    assert words[words.index("--model") + 1] == "/models/it's b"
    assert words[words.index("-i") + 1] == str(tmp_path / "out.jsonl")
    assert words[words.index("-o") + 1] == str(tmp_path / "out-results.jsonl")
    assert shlex.split(second.command)[-2:] == ["--max-model-len", "4096"]
    assert "VLLM_API_KEY" not in first.command


def test_tokens_are_no_batch_s_business(models: BatchModels) -> None:
    client = models.connect(Served("judge", "/models/a"), "--judge")

    async def labels() -> None:
        async with client:
            await client.label_probabilities(TURNS, ("0", "1"))

    with pytest.raises(DeferredError):
        asyncio.run(labels())
    assert models.asked_for_tokens
    (written,) = models.publish()
    request = json.loads(written.path.read_text())
    assert request["body"]["top_logprobs"] == 20
    models.results.take([ResultLine(request["custom_id"], answered("1"))])
    with pytest.raises(DeferredError):  # and no LabelError, which would end everything
        asyncio.run(labels())


def test_a_server_s_model_must_be_named_since_it_is_not_asked(models: BatchModels) -> None:
    with pytest.raises(ModelError, match="add #MODEL"):
        models.connect(Attached("x", URL, ""), "--judge")


def test_what_is_not_published_leaves_no_file(models: BatchModels, tmp_path: Path) -> None:
    with pytest.raises(DeferredError):
        ask(models.connect(Served("m", "/models/a"), "--judge"))
    models.close()
    assert not list(tmp_path.iterdir())
