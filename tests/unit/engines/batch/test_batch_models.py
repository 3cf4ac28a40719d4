"""Models fed with batch files: one file a server, and the command that runs it."""

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.engines.batch.batch_models import BatchModels, DeferredError
from refusal_checks.engines.batch.inbox import ResultLine, custom_id
from refusal_checks.models.client import server_errors
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.names import Attached, Served

TURNS = (Message("user", "hello"),)
URL = "http://127.0.0.1:9/v1"
UNFIT = "1 results do not fit: "


@pytest.fixture
def models(tmp_path: Path) -> Iterator[BatchModels]:
    found = BatchModels(tmp_path / "store.sqlite", tmp_path / "out.jsonl")
    yield found
    found.close()


def ask(client: Client, n: int = 1) -> list[str]:
    async def chat() -> list[str]:
        async with client:
            return [
                choice.text for choice in await client.chat(TURNS, RequestParams(n=n))
            ]

    return asyncio.run(chat())


def defer(client: Client, n: int = 1) -> None:
    with pytest.raises(DeferredError):
        ask(client, n)


def import_answer(
    models: BatchModels, choices: list[dict[str, Any]], **body: object
) -> str:
    """Take a result for the request of ``ask`` to the attached model; its id."""
    asked = {"model": "fake", "messages": [{"role": "user", "content": "hello"}]}
    request_id = custom_id(asked | RequestParams(**body).body)  # type: ignore[arg-type]
    models.results.take([ResultLine(request_id, {"choices": choices})])
    return request_id


def said(
    text: object, finish_reason: str | None = "stop", **more: object
) -> dict[str, Any]:
    return {"message": {"content": text}, "finish_reason": finish_reason, **more}


def finish(models: BatchModels, **counts: int) -> list[str]:
    return list(models.finished(Counter(counts), []))


def test_a_request_without_a_result_is_written_once(
    models: BatchModels, tmp_path: Path
) -> None:
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    models.results.take([])
    for _ in range(2):
        defer(client)
    written, way = finish(models)
    path = tmp_path / "out.jsonl"
    assert written.startswith(f"1 requests written to {path} (")
    assert (written.partition("): ")[2], way) == (
        "x",
        "  for the batch API of that server",
    )
    (request,) = map(json.loads, path.read_text().splitlines())
    assert request["custom_id"] == custom_id(request["body"])
    assert request["body"]["model"] == "fake"
    assert [path.name for path in tmp_path.glob("out*")] == ["out.jsonl"]


def test_a_result_answers_its_request_and_one_with_too_few_choices_does_not(
    models: BatchModels,
) -> None:
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    import_answer(models, [said("one")], n=2)
    defer(client, 2)
    assert finish(models, answered=1)[2].startswith(UNFIT)
    import_answer(models, [said("one"), said("two")], n=2)
    assert ask(client, 2) == ["one", "two"]


@pytest.mark.parametrize(
    "choice",
    [
        said("yes", "abort"),
        said("yes", None),
        said(7),
        said("yes", logprobs={"content": [{"token": "yes"}]}),
    ],
)
def test_a_result_that_is_broken_off_or_malformed_leaves_its_request_pending(
    models: BatchModels,
    tmp_path: Path,
    choice: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(seconds: float) -> None:
        pytest.fail("no second look at a file helps")

    monkeypatch.setattr(server_errors, "sleep", never)
    client = models.connect(Attached("x", URL, "fake"), "--candidate")
    request_id = import_answer(models, [choice])
    for _ in range(2):
        defer(client)
    assert finish(models, answered=1)[2].startswith(UNFIT)
    assert json.loads((tmp_path / "out.jsonl").read_text())["custom_id"] == request_id


def test_each_server_has_its_file_and_models_of_one_server_share_it(
    models: BatchModels, tmp_path: Path
) -> None:
    engine = Served("candidate", "/models/a", ("--max-model-len", "4096"))
    judge = Served(
        "judge", "/models/a", ("--max-model-len", "4096"), {"persona": "judge"}
    )
    models.results.take([])
    for model in (Served("other", "/models/it's b"), engine, judge):
        defer(models.connect(model, "--judge"))
    first, command, second, other = finish(models)
    assert first.startswith(f"1 requests written to {tmp_path / 'out.jsonl'}")
    assert second.startswith(f"2 requests written to {tmp_path / 'out-2.jsonl'}")
    assert [line.partition("): ")[2] for line in (first, second)] == [
        "other",
        "candidate, judge",
    ]
    words = [word for word in shlex.split(command) if "=" not in word]
    assert "vllm.entrypoints.openai.run_batch" in words
    assert words[words.index("--model") + 1] == "/models/it's b"
    assert words[words.index("-i") + 1] == str(tmp_path / "out.jsonl")
    assert words[words.index("-o") + 1] == str(tmp_path / "out-results.jsonl")
    assert shlex.split(other)[-2:] == ["--max-model-len", "4096"]
    assert "VLLM_API_KEY" not in command


def test_tokens_are_no_batch_s_business(models: BatchModels, tmp_path: Path) -> None:
    client = models.connect(Served("judge", "/models/a"), "--judge")
    models.results.take([])

    async def labels() -> None:
        async with client:
            await client.label_probabilities(TURNS, ("0", "1"))

    with pytest.raises(DeferredError):
        asyncio.run(labels())
    assert "no batch has /tokenize" in finish(models)[-1]
    request = json.loads((tmp_path / "out.jsonl").read_text())
    assert request["body"]["top_logprobs"] == 20
    models.results.take([ResultLine(request["custom_id"], {"choices": [said("1")]})])
    with pytest.raises(DeferredError):  # and no LabelError, which would end everything
        asyncio.run(labels())


def test_a_server_s_model_must_be_named_since_it_is_not_asked(
    models: BatchModels,
) -> None:
    with pytest.raises(ModelError, match="add #MODEL"):
        models.connect(Attached("x", URL, ""), "--judge")
