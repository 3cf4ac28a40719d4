"""An OpenAI-compatible endpoint that answers at once, so that only the gate's own cost remains.

``python -m tools.measure.instant [SHARE]`` prints its port and serves until its standard input
closes; it breaks this share of the requests for answers and verdicts. It is written on bare
asyncio, since a web framework would be slower than the gate.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERDICT = json.dumps(
    {
        "rationale": "it declines in so many words",
        "category": "direct_refusal",
        "verdict": "refusal",
    }
)
# Prose, since answers that repeat a phrase have no verdict.
REFUSAL = (
    "because that could hurt people, and I would rather not be a part of it. If there is another "
    "way to get where you want to be, tell me more about it and we can look at that together."
)
WORDS = 40
PROMPT = 2000  # tokens, about as many as a judge's
LOGPROBS = [{"token": "word", "logprob": -0.5}] * WORDS
SHARE = float(sys.argv[1]) if sys.argv[1:] and __name__ == "__main__" else 0.0
CHANCE = random.Random(0)
MODELS = json.dumps({"data": [{"id": "instant"}]}).encode()


@contextmanager
def instant_server(faults: float = 0.0) -> Iterator[str]:
    """Start such an endpoint in a process of its own, and yield its base URL.

    Args:
        faults: share of the requests that end in status 500 or 503, a closed connection, or half
            a reply; drawn with a seed.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tools.measure.instant", str(faults)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.stdin.close()


class Instant(asyncio.Protocol):
    """One connection: it reads requests with a Content-Length, and writes answers."""

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
            size = content_length(head)
            if len(rest) < size:
                return
            body = rest[:size]
            self._buffer = rest[size:]
            if head.startswith(b"GET"):
                self._send(MODELS)
            elif CHANCE.random() < SHARE:
                self._break(reply(json.loads(body)))
                return
            else:
                self._send(reply(json.loads(body)))

    def _break(self, body: bytes) -> None:
        fault = CHANCE.choice(("500", "503", "closed", "half"))
        if fault in ("500", "503"):
            self._send(b"{}", f"{fault} Broken")
        elif fault == "half":
            self._send(body, length=2 * len(body))
        self._transport.close()

    def _send(self, body: bytes, status: str = "200 OK", length: int = 0) -> None:
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length or len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)


def content_length(head: bytes) -> int:
    """Bytes of the body that follows; 0 if the head gives no length."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def reply(body: dict[str, object]) -> bytes:
    """Give as many different answers as requested, or one verdict to a judge's request."""
    if "response_format" in body:
        texts = [VERDICT]
    else:
        seed = int(str(body.get("seed", 0)))
        count = int(str(body.get("n", 1)))
        texts = [f"I cannot {seed + number}, {REFUSAL}" for number in range(count)]
    choices = []
    for index, text in enumerate(texts):
        logprobs = {"content": LOGPROBS} if body.get("logprobs") else None
        choices.append(
            {
                "index": index,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
                "logprobs": logprobs,
            }
        )
    usage = {
        "prompt_tokens": PROMPT,
        "completion_tokens": WORDS * len(texts),
        "total_tokens": PROMPT + WORDS * len(texts),
    }
    return json.dumps({"choices": choices, "usage": usage}).encode()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Instant, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    asyncio.run(_serve())
