"""Measures the page of all runs: ``python -m tools.many_runs [NUMBER]``.

It writes so many runs, then says how long it takes to read them, to write their page, and to open
it in headless Chromium.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from refusal_checks.reports.page.page import write_history
from refusal_checks.reports.page.several import collect
from tests.chromium import browser
from tests.many_runs import opened, write_runs


def main(number: int) -> None:
    """Measure; see the module."""
    with tempfile.TemporaryDirectory() as name:
        root, page = Path(name) / "runs", Path(name) / "history.html"
        write_runs(root, number)
        start = time.perf_counter()
        found = collect(root)
        print(f"{len(found.runs)} runs read in {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        write_history(found, page)
        print(
            f"{page.stat().st_size / 1e6:.1f} MB written in {time.perf_counter() - start:.2f} s"
        )
        with browser() as running:
            print(f"opened in {opened(running, page):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
