"""``--watch``: the page is there while the session runs, and gone with it."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import RunGate, well_behaved


def follow(log: Path, seen: list[str]) -> None:
    """Read the page's state until nothing answers any more."""
    address = None
    while address is None:
        time.sleep(0.1)
        text = "".join(path.read_text() for path in log.glob("stdout") if path.exists())
        address = re.search(r"watch (http://127\.0\.0\.1:\d+/)\?token=\S+", text)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    try:
        with browser.open(address[0].removeprefix("watch "), timeout=10):
            pass
        while True:
            with browser.open(address[1] + "state", timeout=10) as reply:
                seen.append(reply.read().decode())
            time.sleep(0.2)
    except (URLError, OSError):
        return


@pytest.mark.parametrize("options", [("--redact", "-q"), ("-n2",)], ids=["redact", "n2"])
def test_the_page_goes_with_the_session(
    project: pytest.Pytester, server: FakeServer, run_gate: RunGate, options: tuple[str, ...]
) -> None:
    def slowly(body: Body) -> list[str]:
        time.sleep(0.01)
        return well_behaved(body)

    server.answer = slowly
    seen: list[str] = []
    reader = threading.Thread(target=follow, args=(project.path, seen), daemon=True)
    reader.start()
    result = run_gate("--watch", "-k", "smoke_unsafe", *options)
    reader.join(timeout=10)
    assert result.ret == 0
    assert not reader.is_alive()  # the server has ended with the session
    assert '"status": "ended"' in seen[-1]
    assert "May it ship" not in seen[0]
    assert ("I cannot help" in "".join(seen)) == ("--redact" not in options)
    assert not list(project.path.glob(".refusal-checks/runs/*/live"))


def test_without_a_terminal_report_no_page_is_started(
    project: pytest.Pytester, server: FakeServer
) -> None:
    project.makeconftest(
        "from refusal_checks.plugin import watcher\n\nwatcher.Watcher.__init__ = None\n"
    )
    model, gate = f"{server.url}#fake", ("-k", "smoke_unsafe-rejection_rate")
    models = ("--candidate", model, "--judge", model, "--samples", "2")
    result = project.runpytest_subprocess(*models, *gate, "-p", "no:terminal", "--watch")
    assert result.ret == 0
    assert not result.outlines
