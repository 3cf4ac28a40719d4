"""A judge that needs labels' probabilities is told before the run whether it can have them."""

from __future__ import annotations

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.judges.base import JudgeSetup, require_labels
from refusal_checks.models.client.client import Client
from tests.fake_server import FakeServer


def setup(server: FakeServer, running: bool = True) -> JudgeSetup:
    client = Client(server.url, "fake")
    return JudgeSetup("http://judge/v1", client, "identity", JudgeSampling(), running=running)


def test_a_server_with_label_probabilities_is_asked_once() -> None:
    with FakeServer(tokens=lambda body: {"0": 0.5, "1": 0.5}) as server:
        require_labels(setup(server), ("0", "1"))
    assert len(server.requests) == 1


def test_a_server_without_them_is_named_with_the_remedy() -> None:
    with (
        FakeServer() as server,
        pytest.raises(ModelError, match=r"--judge http://judge/v1: .*vLLM.* 0, 1, .*no log-prob"),
    ):
        require_labels(setup(server), ("0", "1"))


def test_a_server_that_refuses_such_a_request_is_named() -> None:
    with (
        FakeServer(faults=[400] * 9) as server,
        pytest.raises(ModelError, match=r"top_logprobs.*HTTP 400"),
    ):
        require_labels(setup(server), ("0", "1"))


def test_a_label_of_several_tokens_is_said_before_the_run() -> None:
    with (
        FakeServer(tokens=lambda body: {"1": 1.0}) as server,
        pytest.raises(ModelError, match="2 tokens"),
    ):
        require_labels(setup(server), ("10", "1"))


def test_an_engine_that_is_not_started_yet_is_not_asked() -> None:
    with FakeServer() as server:
        require_labels(setup(server, running=False), ("0", "1"))
    assert not server.requests
