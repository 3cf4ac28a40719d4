"""Make the pictures in ``docs/images``: the page in all of its uses, and the terminal.

    python docs/make_screenshots.py                # gates of the recorded demo models
    python docs/make_screenshots.py RUN            # the report of a finished run, no terminal

Needs Chromium (``CHROMIUM`` or one on the PATH).
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the tests, which are no installed package

from refusal_checks.reports.page import page as html  # noqa: E402
from refusal_checks.results.run_folder import RunFolder  # noqa: E402
from tests.support.chromium import browser  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = ROOT / "docs" / "images"
COLUMNS = 100
MOST_BYTES = 300_000

GATE = ("gate", "-q", "--tb=no", "--color=yes", "--redact")  # the prompts are harmful

OPENED = """() => {
    const choose = (id, index) => {
        const select = document.getElementById(id);
        select.selectedIndex = index < 0 ? select.length + index : index;
        select.dispatchEvent(new Event('change'));
    };
    choose('benchmark', -1);
    const refused = [...document.getElementById('verdict')].findIndex((o) => o.label === 'refusal');
    choose('verdict', Math.max(0, refused));
    document.querySelector('#list > details').open = true;
    scrollTo(0, document.querySelector('.charts').offsetTop - 60);
}"""
"""Show the charts and, below, the harmless requests of which an answer is a refusal."""

TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #16181d; }}
pre {{ margin: 0; padding: 22px 26px; width: fit-content; color: #d7dae0;
       font: 13px/1.45 "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>"""


def command(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", "from refusal_checks.cli import main; main()"]
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    return subprocess.run(
        [*run, *map(str, words)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def gate(folder: Path, *words: str | Path) -> tuple[Path, str]:
    """Gate recorded answers; the run's folder, and what the terminal showed at the end."""
    done = command(folder, *GATE, *words)
    found = re.search(r"run folder (\S+)", done.stdout)
    if done.returncode not in (0, 1) or found is None:
        sys.exit(f"the gate did not run:\n{done.stdout}\n{done.stderr}")
    return Path(found[1]), done.stdout


def demo(folder: Path) -> tuple[Path, str]:
    """The gate of the regressed demo model against the aligned one."""
    earlier, _ = gate(folder, "replay:demo")
    command(folder, "baseline", "accept", earlier, "baselines").check_returncode()
    return gate(folder, "replay:demo-regressed", "--baseline", "baselines")


def summary(output: str) -> str:
    """The end of the terminal, from its table on, without this machine's paths."""
    lines = output.rstrip().splitlines()
    start = next(
        n
        for n, line in enumerate(lines)
        if " refusal checks " in line and "===" in line
    )
    return "\n".join(lines[start:])


def as_html(terminal: str) -> str:
    """A terminal's output, colours and all, as a page."""
    from rich.console import Console
    from rich.terminal_theme import NIGHT_OWLISH
    from rich.text import Text

    console = Console(
        record=True, width=COLUMNS + 20, file=io.StringIO(), color_system="truecolor"
    )
    console.print(Text.from_ansi(terminal), soft_wrap=True)
    return console.export_html(
        theme=NIGHT_OWLISH, inline_styles=True, code_format=TERMINAL
    )


def save(picture: bytes, name: str) -> None:
    """Write a picture in as few colours as keep its rare ones."""
    from PIL import Image

    path = IMAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    full = Image.open(io.BytesIO(picture)).convert("RGB")
    few = full.quantize(
        192, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE
    )
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        sys.exit(f"{path} is larger than {MOST_BYTES / 1000:.0f} kB")


def pictures(
    chromium: Browser, report: Path, terminal: str
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each picture."""
    for name, scheme, height in (
        ("report", "light", 870),
        ("report-dark", "dark", 1180),
    ):
        size = {"width": 1200, "height": height}
        page = chromium.new_page(
            viewport=size, color_scheme=scheme, device_scale_factor=1.25
        )
        page.goto(report.as_uri())
        page.wait_for_selector("#list summary")
        if scheme == "dark":
            page.evaluate(OPENED)
        yield f"{name}.png", page.screenshot()
        page.close()
    if terminal:
        page = chromium.new_page(device_scale_factor=1.5)
        page.set_content(as_html(terminal))
        yield "terminal.png", page.locator("pre").first.screenshot()


def main(run: str = "") -> None:
    with tempfile.TemporaryDirectory() as name:
        terminal = ""
        if run:
            folder = Path(run)
        else:
            folder, output = demo(Path(name))
            terminal = summary(output).replace(f"{name}/", "")
        report = Path(name) / "report.html"
        html.write(RunFolder.of(folder), report)
        with browser() as chromium:
            for picture, content in pictures(chromium, report, terminal):
                save(content, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
