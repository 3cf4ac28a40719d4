"""Models whose engines the tests place and start, and a small server in vLLM's place."""

import sys
from collections.abc import Callable

from refusal_checks.models.model_names import Served

ALIGNED = Served("demo:aligned", "model", (), {"persona": "aligned"})
JUDGE = Served("demo:writer", "model", (), {"persona": "judge"})
OTHER = Served("other", "other", ("--seed", "1"))

SERVER = """
import http.server, os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{tag}"])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "die" in self.path:
            os._exit(0)
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
"""Healthy, and with a child of its own, as vLLM has its engine core."""


def serving(tag: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, "-c", SERVER.format(tag=tag, port=port), tag]
