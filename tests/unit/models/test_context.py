"""What a model's context leaves for an answer: told by a list, a refusal, or the model's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.models.client.attaching import listed_context
from refusal_checks.models.client.errors import (
    LEAST,
    PromptTooLongError,
    error_for,
    next_limit,
)
from refusal_checks.models.files import declared
from refusal_checks.models.spec import Served

REFUSALS: dict[str, tuple[str, int | None]] = {
    "vLLM 0.32": (
        "max_tokens=8192 cannot be greater than max_model_len=4096. Please request fewer output "
        "tokens.",
        4096,
    ),
    "vLLM 0.11": (
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context "
        "length is 4096 tokens and your request has 96 input tokens (8192 > 4096 - 96).",
        4000,
    ),
    "vLLM 0.6": (
        "This model's maximum context length is 4096 tokens. However, you requested 8288 tokens "
        "(96 in the messages, 8192 in the completion). Please reduce the length of the messages "
        "or completion.",
        4000,
    ),
    "vLLM, prompt too long": (
        "This model's maximum context length is 4096 tokens. However, your prompt contains at "
        "least 4097 input tokens, which exceeds this limit even without any output tokens. Please "
        "reduce the length of the input prompt.",
        None,
    ),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
        "requested a total of 8288 tokens: 96 tokens from the input messages and 8192 tokens for "
        "the completion.",
        4000,
    ),
    "OpenAI": (
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, "
        "whereas you provided 8192.",
        4096,
    ),
    "Anthropic": (
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens",
        4096,
    ),
    "Groq": (
        "`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens` is "
        "less than the `context_window` for this model",
        4096,
    ),
    "DeepSeek": ("Invalid max_tokens value, the valid range of max_tokens is [1, 4096]", 4096),
    "TGI": (
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 96 `inputs` tokens and 8192 "
        "`max_new_tokens`",
        4000,
    ),
    "no number": ("context_length_exceeded", 4096),
    "too little room": (
        "This model's maximum context length is 4096 tokens. However, you requested 12192 tokens "
        "(4000 in the messages, 8192 in the completion).",
        None,
    ),
}


@pytest.mark.parametrize("server", REFUSALS)
def test_a_refusal_says_how_many_tokens_to_ask_for(server: str) -> None:
    words, expected = REFUSALS[server]
    assert next_limit(words, 8192) == expected
    assert isinstance(error_for("http://x/v1", 400, words), PromptTooLongError)


def test_a_bound_that_did_not_help_is_halved_until_little_is_left() -> None:
    words, tried = "context size (4096 tokens) exceeded by prompt and max_tokens", [8192]
    while found := next_limit(words, tried[-1]):
        tried.append(found)
    assert tried == [8192, 4096, 2048, 1024, 512, 256, 128]
    assert next_limit("maximum context length is 4096; your prompt is longer", 4096) is None


@given(st.text(max_size=300), st.integers(1, 10_000))
def test_every_further_limit_is_smaller(words: str, refused: int) -> None:
    found = next_limit(words, refused)
    assert found is None or LEAST <= found < refused


def test_a_refusal_of_the_field_itself_is_no_matter_of_length() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model."
    assert not isinstance(error_for("http://x/v1", 400, words), PromptTooLongError)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_window": 131072, "max_completion_tokens": 8192}, 131072),
        ({"meta": {"n_ctx_train": 32768, "n_ctx": 4096}}, 4096),
        ({"context_length": "4096"}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": -1}, None),
        ({"meta": [4096]}, None),
        ({}, None),
    ],
)
def test_lists_of_models_give_the_context_under_several_names(
    model: dict[str, Any], expected: int | None
) -> None:
    assert listed_context(model) == expected


@pytest.mark.parametrize(
    ("args", "config", "expected"),
    [
        ((), {"max_position_embeddings": 4096}, 4096),
        ((), {"text_config": {"max_position_embeddings": 4096}}, 4096),
        ((), {"max_position_embeddings": 4096, "rope_scaling": {"factor": 4.0}}, None),
        (("--max-model-len", "2048"), {"max_position_embeddings": 4096}, 2048),
        (("--max-model-len=auto",), {"max_position_embeddings": 4096}, 4096),
        (("--max-model-len", "2k"), {"max_position_embeddings": 4096}, None),
        (("--max-model-len", "9" * 5000), {"max_position_embeddings": 4096}, None),
        ((), {}, None),
        ((), [], None),
        ((), "nonsense", None),
    ],
)
def test_an_engine_s_context_is_in_its_arguments_or_the_model_s_files(
    tmp_path: Path, args: tuple[str, ...], config: object, expected: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert declared(Served("it", str(tmp_path), args)) == expected


def test_a_model_without_files_here_declares_nothing(tmp_path: Path) -> None:
    assert declared(Served("it", str(tmp_path / "none"))) is None
    assert declared(Served("it", "nobody/does-not-exist")) is None
    assert declared(Served("it", "~nobody123/x")) is None
