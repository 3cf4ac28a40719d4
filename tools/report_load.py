"""Measures the HTML report of large runs; ``docs/reference/report.md`` has the figures.

    python -m tools.report_load [RECORDS ...]

Says how long the file takes to write, in a process of its own and with its peak of memory, and how
long a headless Chromium takes to open it, to search it and to filter it. Nothing is asserted.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from refusal_checks.reports.formats import html
from refusal_checks.results.run_folder import RunFolder
from tests.chromium import browser
from tests.report_runs import refusals, write_run

SAMPLES, WORDS = 5, 80


def make(records: int, folder: Path) -> None:
    """A run of so many answers, a fifth of them harmless requests."""
    prompts = records // SAMPLES
    unsafe = refusals("unsafe", prompts * 4 // 5, SAMPLES, length=WORDS)
    safe = refusals("safe", prompts // 5, SAMPLES, refused=0.1, length=WORDS)
    write_run(folder, {"unsafe": list(unsafe), "safe": list(safe)})


def write(folder: Path, file: Path) -> None:
    """Write the report and say what that took."""
    start, busy = perf_counter(), process_time()
    html.write([RunFolder(folder)], file)
    seconds, busy = perf_counter() - start, process_time() - busy
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    megabytes = file.stat().st_size / 1e6
    print(
        f"  written in {seconds:.1f} s ({busy:.1f} s of processor time), {megabytes:.1f} MB, "
        f"peak memory {gib:.2f} GiB"
    )


def look(file: Path) -> None:
    """Open the report and say how long things take."""
    with browser() as chromium:
        page = chromium.new_page()
        start = perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("#list summary")
        print(f"  opened in {perf_counter() - start:.2f} s")
        for what, script in {
            "searched": "$('query').value = 'word996'; update()",
            "searched in vain": "$('query').value = 'not in there'; update()",
            "filtered": "clear(); $('gate').selectedIndex = 1; update()",
        }.items():
            seconds = page.evaluate(
                f"() => {{ const start = performance.now(); {script};"
                "document.body.offsetHeight; return (performance.now() - start) / 1000; }"
            )
            print(f"  {what} in {seconds:.2f} s: {page.locator('#count').inner_text()}")


def main(sizes: list[int]) -> None:
    context = multiprocessing.get_context("spawn")
    for records in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder, file = Path(name) / "run", Path(name) / "report.html"
            print(
                f"{records:,} records, {SAMPLES} to a prompt, {WORDS} words each",
                flush=True,
            )
            for target, args in ((make, (records, folder)), (write, (folder, file))):
                process = context.Process(target=target, args=args)
                process.start()
                process.join()
            look(file)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000, 125_000])
