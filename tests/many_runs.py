"""Folders of many finished runs, for tests of the page of all runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_checks.gates.gate import Gate
from tests.report_runs import refusals, write_run, write_sealed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FIRST = datetime(2026, 1, 2, 9, tzinfo=UTC)


def manifest(number: int = 0, **facts: Any) -> dict[str, Any]:
    """A manifest that says all that comparisons depend on."""
    data = {"revision": "1", "sha256": "abc", "prompts": 60}
    known = {
        "candidate": f"org/model-{number % 4}",
        "judge": "org/judge",
        "started": (FIRST + timedelta(days=number)).isoformat(),
        "models": {"judges": {"org/judge": {"version": "org/judge@1"}}},
        "judge_prompts": {name: {"org/judge": "p1"} for name in ("unsafe", "safe")},
        "data": {"unsafe": data, "safe": data},
        "sampling": {"temperature": 0.6, "seed": number},
        "judge_sampling": {"temperature": 0.0},
    }
    return known | facts


def write_runs(root: Path, number: int, benchmarks: int = 8) -> None:
    """Write so many runs with two gates for each benchmark; every fourth has another judge."""
    names = [f"suite_{n}" for n in range(benchmarks)]
    gates = [
        gate
        for name in names
        for gate in (
            Gate(name, "rejection_rate", minimum=0.5),
            Gate(name, "invalid_rate", maximum=0.02),
        )
    ]
    records = {name: list(refusals(name, 40, 1, refused=0.6)) for name in names}
    content = json.loads(
        write_run(root / "first", records, gates).summary_file.read_bytes()
    )
    data = {name: {"revision": "1", "sha256": "abc", "prompts": 40} for name in names}
    for place in range(number):
        judge = "org/other" if place % 4 == 3 else "org/judge"
        content["manifest"] = manifest(
            place,
            judge=judge,
            models={"judges": {judge: {"version": judge}}},
            judge_prompts={name: {judge: "p1"} for name in names},
            data=data,
        )
        _move(content["verdicts"], place)
        folder = root / f"{FIRST + timedelta(days=place):%Y%m%d-%H%M%SZ}-{place}"
        folder.mkdir(parents=True)
        content.pop("sha256", None)
        write_sealed(folder / "summary.json", content)
    (root / "first" / "summary.json").unlink()


def _move(verdicts: Mapping[str, Any], place: int) -> None:
    """Give every gate of a run another figure."""
    for shift, verdict in enumerate(verdicts.values()):
        value = 0.3 + 0.05 * ((place * 7 + shift * 3) % 12)
        verdict["estimate"] |= {
            "value": value,
            "lower": value - 0.08,
            "upper": value + 0.08,
        }
        verdict["passed"] = value >= 0.5


def opened(running: Browser, page: Path) -> float:
    """Seconds from a browser's navigation until it has run the page's script and laid it out."""
    shown = running.new_page(viewport={"width": 1280, "height": 900})
    shown.goto(page.as_uri())
    shown.wait_for_function("document.getElementById('run-count').textContent")
    milliseconds: float = shown.evaluate(
        "(document.body.offsetHeight, performance.now())"
    )
    shown.close()
    return milliseconds / 1000
