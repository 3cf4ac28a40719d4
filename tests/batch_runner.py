"""Answers a batch file as an engine's batch command does, with a fake server in its place."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.fake_server import FakeServer


def requests(path: Path) -> list[dict[str, Any]]:
    """The requests of a batch file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_batch(server: FakeServer, path: Path, results: Path) -> Path:
    """Put each request to the server; the results' file."""
    lines = [json.dumps(_result(server, request)) for request in requests(path)]
    results.write_text("".join(f"{line}\n" for line in lines))
    return results


def _result(server: FakeServer, request: dict[str, Any]) -> dict[str, Any]:
    assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
    call = urllib.request.Request(
        server.url.removesuffix("/v1") + request["url"],
        json.dumps(request["body"]).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(call, timeout=10) as reply:
            status, body, error = 200, json.load(reply), None
    except urllib.error.HTTPError as fault:
        with fault:
            status, body, error = fault.code, None, json.load(fault)
    response = {"status_code": status, "request_id": "r", "body": body}
    return {
        "id": "b",
        "custom_id": request["custom_id"],
        "response": response,
        "error": error,
    }
