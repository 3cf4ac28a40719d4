"""What a server says of itself before a run."""

from __future__ import annotations

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import process
from refusal_checks.models.client import attaching
from tests.fake_server import FakeServer


def test_the_models_that_a_server_lists() -> None:
    with FakeServer(models=["a", "b"]) as server:
        assert attaching.list_models(server.url, "", "--judge") == ("a", "b")
        assert attaching.list_models(f"{server.url}/nowhere", "", "--judge") == ()


def test_the_wanted_model_or_the_only_one_is_chosen() -> None:
    assert attaching.choose("http://x/v1", "", ["fake"], "--judge") == "fake"
    assert attaching.choose("http://x/v1", "mine", [], "--judge") == "mine"
    for listed, words in (
        (["a", "b"], "add #MODEL, one of: a, b"),
        ([], "add #MODEL, because the server lists none"),
    ):
        with pytest.raises(ModelError, match=f"--judge http://x/v1: {words}"):
            attaching.choose("http://x/v1", "", listed, "--judge")


def test_a_refused_key_is_named_by_its_variable() -> None:
    with FakeServer(api_key="secret") as server:
        with pytest.raises(ModelError, match=r"REFUSAL_CHECKS_JUDGE_API_KEY.*401"):
            attaching.list_models(server.url, "", "--judge")
        assert attaching.list_models(server.url, "secret", "--judge") == ("fake",)


def test_nobody_answers() -> None:
    with FakeServer() as server:
        pass
    with pytest.raises(ModelError, match=rf"--candidate {server.url}: no OpenAI-compatible"):
        attaching.list_models(server.url, "", "--candidate")


def test_health() -> None:
    with FakeServer() as server:
        base = server.url.removesuffix("/v1")
        assert process.is_healthy(f"{base}/health")
    assert not process.is_healthy(f"{base}/health")
