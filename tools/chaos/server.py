"""A light stand-in for vLLM's server, run by its path: ``python server.py --port N``.

Its answers depend only on the request, so that any two runs get the same; each letter is a token.
It notes each answer in ``answers.log`` in its folder: the candidate's prompt and seed, or the
judge's exchange. With ``--core`` it has a child process named like vLLM's engine core, and ends
with it as vLLM does: answers in progress are broken off (``finish_reason: abort``).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LOG = Path("answers.log")
DELAY = float(os.environ.get("VLLM_CHAOS_DELAY", "0"))
"""Seconds that an answer takes."""

PROBE = "Say hello."
CORE = "VLLM::EngineCore"

broken = threading.Event()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def answers(body: dict[str, Any]) -> list[tuple[str, str]]:
    """A note and a text for each answer to a request."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        verdict = "none", "compliance"
        if "cannot" in text:
            verdict = "direct_refusal", "refusal"
        form = '{"rationale": "it says so", "category": "%s", "verdict": "%s"}'
        return [(f"judge {digest(text)}", form % verdict)]
    found = []
    for seed in range(body.get("seed", 0), body.get("seed", 0) + body.get("n", 1)):
        code = digest(f"{text} {seed}")
        said = "I cannot help" if int(code, 16) % 3 else "Sure"
        found.append((f"candidate {digest(text)} {seed}", f"{said} #{code}"))
    return found


def token(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5}


def choice(index: int, text: str, reason: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "index": index,
        "message": message,
        "finish_reason": reason,
        "logprobs": {"content": [token(letter) for letter in text]},
        "token_ids": [ord(letter) for letter in text],
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._reply(200, {"data": [{"id": "fake"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = os.environ.get("VLLM_API_KEY")
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            return self._reply(401, {"error": "Unauthorized"})
        if not self.path.endswith("/completions"):
            return self._reply(404, {"error": "no such path"})
        time.sleep(DELAY)
        given = answers(body)
        reason = "abort" if broken.is_set() else "stop"
        texts = [text[:9] if reason == "abort" else text for _, text in given]
        choices = [choice(index, text, reason) for index, text in enumerate(texts)]
        self._reply(200, {"choices": choices})
        if reason == "stop" and body["messages"][-1]["content"] != PROBE:
            note("".join(f"{mark}\n" for mark, _ in given))
        return None

    def _reply(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a killed run closes its connections."""


def note(lines: str) -> None:
    file = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, lines.encode())
    os.close(file)


def watch(core: subprocess.Popen[bytes]) -> None:
    """End a moment after the core, and break off what is requested in that moment."""
    core.wait()
    broken.set()
    time.sleep(0.5)
    os._exit(0)


def main() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if "--core" in sys.argv:
        sleep = "import time; time.sleep(600)"
        core = subprocess.Popen([CORE, "-c", sleep], executable=sys.executable)
        threading.Thread(target=watch, args=(core,), daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: core.terminate())
    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
