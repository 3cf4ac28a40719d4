"""Connections to servers that others run: what is found out first, and what is told."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.models.client.attaching import Attaching, list_contexts
from refusal_checks.models.client.capabilities import (
    ALL,
    Capabilities,
    Support,
)
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.probing import ROOM, TOKENS, probe
from refusal_checks.models.names import Attached
from tests.fake_server import FakeServer


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def attaching(**limits: Any) -> Attaching:
    return Attaching(Limits(**limits), Sampling(), JudgeSampling())


def named(server: FakeServer, model: str = "", **settings: Any) -> Attached:
    return Attached(server.url, server.url, model, **settings)


def connect(
    server: FakeServer, model: str = "", option: str = "--judge", number: int = 1
) -> Client:
    return attaching().connect(named(server, model), option, number)


def test_a_server_is_asked_once_what_it_can_do_in_a_role() -> None:
    lacking = replace(ALL, top_k=Support.REFUSED)
    with FakeServer(refuses=["top_k"]) as server:
        found = attaching()
        for option in ("--judge", "--judge", "--candidate"):
            client = found.connect(named(server), option, 1)
            assert (client.model, client.capabilities) == ("fake", lacking)
    assert len(server.probes) == 2 * 8


def test_a_model_that_is_not_listed_may_be_there_all_the_same() -> None:
    with FakeServer(models=["listed", "hidden"], lists=["listed"]) as server:
        assert connect(server, "hidden").model == "hidden"
        with pytest.raises(
            ModelError, match=r"#gone: .* no such model; it has: listed \(.*404"
        ):
            connect(server, "gone")


def test_a_server_that_lists_nothing_or_several_is_asked_for_the_named_model() -> None:
    with FakeServer(lists=None) as server:
        assert connect(server, "fake").model == "fake"
        with pytest.raises(
            ModelError, match=r"add #MODEL, because the server lists none"
        ):
            connect(server)
    with (
        FakeServer(models=["a", "b"]) as server,
        pytest.raises(
            ModelError, match=f"--judge {server.url}: add #MODEL, one of: a, b"
        ),
    ):
        connect(server)


def test_settings_are_left_out_one_by_one_and_the_rest_is_probed_without_them() -> None:
    with FakeServer(refuses=["max_tokens", "temperature", "stop"]) as server:
        can = found(server, temperature=0.6, stop=("END",))
    left_out = frozenset({"temperature", "stop"})
    assert can == replace(ALL, max_tokens=Support.REFUSED, refused=left_out)
    limits = {
        body.get("max_completion_tokens") for body in server.probes if "seed" in body
    }
    assert ROOM in limits
    assert can.as_words() == {
        "n": "yes",
        "logprobs": "yes",
        "structured_outputs": "yes",
        "seed": "yes",
        "top_k": "yes",
        "max_tokens": "refused",
        "stop": "left out",
        "temperature": "left out",
    }


def test_a_key_that_is_refused_is_no_setting_that_is() -> None:
    with FakeServer() as server:
        server.rule = lambda body: (
            403,
            {"error": {"message": "no access to this model"}},
        )
        with pytest.raises(
            ModelError, match=r"REFUSAL_CHECKS_CANDIDATE_API_KEY.*no access"
        ):
            connect(server, option="--candidate")
        assert len(server.probes) == 8


def test_a_url_that_lacks_its_end_is_asked_about() -> None:
    with FakeServer() as server:
        base = Attached("x", server.url.removesuffix("/v1"), "")
        with pytest.raises(ModelError, match=r"does the URL end in /v1\?"):
            attaching().connect(base, "--judge", 1)
        with pytest.raises(ModelError, match=r"404.*does its URL end in /v1\?"):
            attaching().connect(replace(base, model="fake"), "--judge", 1)


def test_a_key_may_end_a_line_and_must_be_sendable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeServer(api_key="secret") as server:
        monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_API_KEY", "secret\r\n")
        assert connect(server).model == "fake"
        monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "sec\nret")
        with pytest.raises(
            ModelError, match="REFUSAL_CHECKS_JUDGE_2_API_KEY"
        ) as caught:
            connect(server, number=2)
    assert "ret" not in str(caught.value)


def test_refused_template_variables_are_named_by_their_option() -> None:
    with (
        FakeServer(refuses=["chat_template_kwargs"]) as server,
        pytest.raises(
            ModelError, match=r"\(with judge.template_variables\): .*unknown fields"
        ),
    ):
        attaching().connect(named(server, template_kwargs={"a": 1}), "--judge", 1)


def test_the_models_of_a_server_are_listed_with_its_key() -> None:
    with FakeServer(api_key="secret", models=["a", "b"]) as server:
        with pytest.raises(ModelError, match=r"REFUSAL_CHECKS_JUDGE_API_KEY.*401"):
            list_contexts(server.url, "", "--judge")
        assert list_contexts(server.url, "secret", "--judge") == {"a": None, "b": None}
        assert list_contexts(f"{server.url}/nowhere", "secret", "--judge") == {}
    with pytest.raises(
        ModelError, match=rf"--candidate {server.url}: no OpenAI-compatible"
    ):
        list_contexts(server.url, "", "--candidate")


FIELDS = {
    "n": "n",
    "logprobs": "logprobs",
    "structured_outputs": "response_format",
    "seed": "seed",
    "top_k": "top_k",
    "token_ids": "return_token_ids",
}
"""The field of a request by capability."""


def found(server: FakeServer, **options: Any) -> Capabilities:
    return asyncio.run(probe(Client(server.url, "fake"), RequestParams(**options)))


def test_a_server_that_can_do_all() -> None:
    with FakeServer(tokens=lambda body: {"1": 0.6, "2": 0.4}) as server:
        assert found(server) == ALL
    assert len(server.probes) == 8
    assert max(body["max_tokens"] for body in server.probes) == TOKENS
    assert server.requests == []


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_refused_or_overlooked(name: str) -> None:
    with FakeServer(refuses=[FIELDS[name]]) as server:
        refused: dict[str, Any] = {name: Support.REFUSED}
        assert found(server) == replace(ALL, **refused)
    ignored: dict[str, Any] = {name: Support.IGNORED}
    with FakeServer(ignores=[FIELDS[name]]) as server:
        # That a server ignores top_k cannot be seen.
        assert found(server) == (ALL if name == "top_k" else replace(ALL, **ignored))


def test_a_server_that_breaks_on_a_field_refuses_it_and_a_busy_one_tells_nothing() -> (
    None
):
    with FakeServer(no_schemas=500) as server:
        assert found(server) == replace(ALL, structured_outputs=Support.REFUSED)
    with FakeServer(no_schemas=503) as server:
        assert found(server) == ALL


def test_the_run_s_own_sampling_is_tried() -> None:
    with FakeServer() as server:
        found(server, temperature=0.6, top_p=0.95, top_k=20)
        known = [body for body in server.probes if "top_logprobs" not in body]
        assert {(body["temperature"], body["top_p"]) for body in known} == {(0.6, 0.95)}
        assert [body["top_k"] for body in known if "top_k" in body] == [20]
        server.probes.clear()
        found(server, temperature=0.0)
    (drawn,) = {body["temperature"] for body in server.probes if "seed" in body}
    assert drawn > 0, "a greedy answer comes back without a seed"
