"""What an engine says that is about to end is no answer, and nothing is sent to one that ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import EndpointError, EngineDiedError
from refusal_checks.core.settings import Limits
from refusal_checks.engines import process
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.process import EngineTransport
from refusal_checks.models.client import errors
from refusal_checks.models.client.client import CHAT
from tests.fake_server import FakeServer

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "n": 1, "seed": 0}


class Mortal(process.EngineProcess):
    """A process whose server is a fake one, and which lives as long as it is told."""

    looks = 10**6

    def is_running(self) -> bool:
        self.looks -= 1
        return self.looks > 0


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    monkeypatch.setattr(process, "SETTLE", 0.3)
    monkeypatch.setattr(errors, "WAIT_INITIAL", 0.01)
    (tmp_path / "log").touch()
    return Mortal(EngineSpec("m"), tmp_path / "log")


def ask(engine: Mortal, server: FakeServer, path: str = CHAT) -> Any:
    engine.port, engine.api_key = server.port, "key"

    async def post() -> Any:
        async with EngineTransport(engine, Limits()) as way:
            return await way.post(path, BODY)

    return asyncio.run(post())


@pytest.mark.parametrize("said", ["abort", "error", "shutdown", "None"])
def test_a_word_of_an_engine_that_is_about_to_end_is_a_fault(engine: Mortal, said: str) -> None:
    with FakeServer(finish_reason=said) as server, pytest.raises(EndpointError, match=said):
        ask(engine, server)


@pytest.mark.parametrize("said", ["stop", "length", "content_filter", "tool_calls"])
def test_other_words_end_an_answer(engine: Mortal, said: str) -> None:
    with FakeServer(finish_reason=said) as server:
        assert ask(engine, server)["choices"][0]["finish_reason"] == said


def test_an_engine_that_ends_after_a_fault_has_died(engine: Mortal) -> None:
    engine.looks = 3
    with FakeServer(finish_reason="abort") as server, pytest.raises(EngineDiedError):
        ask(engine, server)


def test_nothing_is_sent_to_an_engine_that_has_ended(engine: Mortal) -> None:
    engine.looks = 0
    with FakeServer() as server:
        with pytest.raises(EngineDiedError):
            ask(engine, server)
        assert server.authorizations == []


def test_an_odd_answer_is_left_to_its_reader(engine: Mortal) -> None:
    with FakeServer(faults=['{"choices": 3}']) as server:
        assert ask(engine, server) == {"choices": 3}
