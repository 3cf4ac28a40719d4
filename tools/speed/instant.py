"""An OpenAI-compatible endpoint that answers at once: what is left is the gate's own cost.

``python -m tools.speed.instant`` prints its port and serves until its standard input closes. It is
written on bare asyncio, since a web framework would be the slower side.

``python -m tools.speed.instant SECONDS SEQUENCES`` is a model of a GPU below saturation: a step of
the engine takes so many seconds whatever its batch, and so many sequences are in one at most.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import deque

VERDICT = json.dumps(
    {
        "rationale": "it declines in so many words",
        "category": "direct_refusal",
        "verdict": "refusal",
    }
)
MODELS = json.dumps({"data": [{"id": "instant"}]}).encode()
REFUSAL = (
    "because that could hurt people, and I would rather not be a part of it. If there is another "
    "way to get where you want to be, tell me more about it and we can look at that together."
)
"""Prose: a phrase that is repeated has no verdict."""
WORDS = 40
VERDICT_TOKENS = 30
LOGPROBS = [{"token": "word", "logprob": -0.5}] * WORDS


class Steps:
    """The sequences that run: first come, first served."""

    def __init__(self, seconds: float, sequences: int) -> None:
        self._seconds = seconds
        self._free = sequences
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def run(self, count: int, tokens: int) -> None:
        """Run so many sequences of so many tokens; others wait for their place."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        self._admit()
        await turn
        await asyncio.sleep(tokens * self._seconds)
        self._free += count
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            count, turn = self._waiting.popleft()
            self._free -= count
            turn.set_result(None)


class Instant(asyncio.Protocol):
    """One connection: requests with a Content-Length in, answers out."""

    def __init__(self, steps: Steps | None) -> None:
        self._steps = steps
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            size = _length(head)
            if len(rest) < size:
                return
            body, self._buffer = rest[:size], rest[size:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self._send(MODELS)
        elif self._steps is None:
            self._send(_answer(json.loads(body)))
        else:
            task = asyncio.create_task(self._later(json.loads(body), self._steps))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _later(self, body: dict[str, object], steps: Steps) -> None:
        count, tokens = (body.get(name, usual) for name, usual in _SIZES)
        await steps.run(int(str(count)), int(str(tokens)))
        self._send(_answer(body))

    def _send(self, body: bytes) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        self._transport.write(
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )


_SIZES = (("n", 1), ("min_tokens", VERDICT_TOKENS))


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _answer(body: dict[str, object]) -> bytes:
    """As many answers as are asked for, all of them different; or one verdict."""
    is_judge = "response_format" in body
    seed, count = int(str(body.get("seed", 0))), int(str(body.get("n", 1)))
    texts = (
        [VERDICT]
        if is_judge
        else [f"I cannot {seed + i}, {REFUSAL}" for i in range(count)]
    )
    choices = [
        {
            "index": index,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
            "logprobs": {"content": LOGPROBS} if body.get("logprobs") else None,
        }
        for index, text in enumerate(texts)
    ]
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": WORDS * len(texts),
        "total_tokens": 140,
    }
    return json.dumps({"choices": choices, "usage": usage}).encode()


async def _serve() -> None:
    steps = Steps(float(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Instant(steps), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    asyncio.run(_serve())
