"""Every path of a server started here wants the key."""

from __future__ import annotations

import asyncio

import pytest

from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.guard import KeyCheck, Message, Receive, Send
from refusal_checks.engines.kinds.vllm import ENGINE


async def receive() -> Message:
    return {}


def status(path: str, *, key: str = "", kind: str = "http") -> object:
    """What a request gets: the application's 200, or what stands in its way."""
    sent: list[Message] = []

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await send({"status": 200})

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    scope = {"type": kind, "path": path, "headers": headers}
    asyncio.run(KeyCheck(application)(scope, receive, send))
    return sent[0].get("status", sent[0].get("code"))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")


@pytest.mark.parametrize("path", ["/invocations", "/tokenize", "/metrics", "/v1/models", "/", "/x"])
def test_a_path_wants_the_key(path: str) -> None:
    assert status(path) == 401
    assert status(path, key="wrong") == 401
    assert status(path, key="right") == 200
    assert status(path, kind="websocket") == 1008


def test_health_and_the_server_s_own_life_want_none() -> None:
    assert status("/health") == 200
    assert status("/health/../metrics") == 401
    assert status("", kind="lifespan") == 200


def test_vllm_gets_the_lock_and_another_program_does_not() -> None:
    lock = "refusal_checks.engines.guard.KeyCheck"
    assert lock in ENGINE.command(EngineSpec("m"), 1)
    assert lock not in ENGINE.command(EngineSpec("m", program=("./serve.sh",)), 1)
