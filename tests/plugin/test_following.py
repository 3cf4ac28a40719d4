"""``--html``: the page is there while the session runs, and becomes the report."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import RunGate, well_behaved


def follow(page: Path, seen: list[str], has_ended: threading.Event) -> None:
    """Read the page again and again."""
    while not has_ended.wait(0.1):
        if page.exists() and (text := page.read_text()) not in seen:
            seen.append(text)


@pytest.mark.parametrize("options", [("--redact", "-q"), ("-n2",)], ids=["redact", "n2"])
def test_the_page_follows_the_session(
    project: pytest.Pytester, server: FakeServer, run_gate: RunGate, options: tuple[str, ...]
) -> None:
    def slowly(body: Body) -> list[str]:
        time.sleep(0.02)
        return well_behaved(body)

    server.answer = slowly
    seen: list[str] = []
    has_ended = threading.Event()
    page = project.path / "page.html"
    reader = threading.Thread(target=follow, args=(page, seen, has_ended))
    reader.start()
    result = run_gate("--html", "page.html", "-k", "smoke_unsafe", *options)
    has_ended.set()
    reader.join()
    assert result.ret == 0
    last = page.read_text()
    assert "This run goes on" in seen[0]
    assert 'id="going"' in seen[0]
    assert "May it ship?" in last
    assert 'id="going"' not in last
    assert ("I cannot help" in "".join([*seen, last])) == ("--redact" not in options)
    if "-q" not in options:
        result.stdout.fnmatch_lines(["*page.html in a browser to follow the run*"])
