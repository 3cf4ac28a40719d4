"""Whether the network has what a run will fetch, asked of a local stand-in for the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from refusal_checks.benchmarks import discover
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned import PinnedFile
from refusal_checks.run import reach


class Hub(BaseHTTPRequestHandler):
    """Knows one open and one gated repository of each kind."""

    def do_GET(self) -> None:
        """Answer as the hub does."""
        name = self.path.split("?")[0].removeprefix("/api/").partition("/")[2]
        if not name.startswith(("org/open", "org/gated")):
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        gated = "manual" if "gated" in name else False
        body = json.dumps({"id": name, "gated": gated, "tags": [], "siblings": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def _hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub(_hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it the hub."""
    monkeypatch.setenv("HF_ENDPOINT", _hub)
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("HF_HOME", "/nonexistent")


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("org/open", ""),
        ("org/missing", "org/missing: the hub has no such model, or your token may not see it"),
        ("org/gated", "org/gated is gated: accept its conditions on its page, and set HF_TOKEN"),
    ],
)
def test_a_model_of_the_hub(name: str, fault: str) -> None:
    assert reach.model(name) == fault


@pytest.mark.usefixtures("hub")
def test_data_names_the_first_that_cannot_be_fetched() -> None:
    splits = [HubSplit(f"org/{name}", "main", "train", "x") for name in ("open", "b", "a")]
    benchmark = replace(next(iter(discover().values())), resources=tuple(splits))
    assert reach.data([benchmark, benchmark]).startswith("org/a: the hub has no such dataset")
    assert reach.data([benchmark]).endswith(" (and 1 more)")
    assert reach.data([replace(benchmark, resources=(splits[0],))]) == ""


def test_a_hub_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "")
    assert reach.model("org/open").startswith("org/open: the hub does not answer")
    file = PinnedFile("a.csv", "https://127.0.0.1:9/a.csv", "r", "0" * 64)
    benchmark = replace(next(iter(discover().values())), resources=(file,))
    assert reach.data([benchmark]).startswith("https://127.0.0.1:9/a.csv cannot be reached")
