"""The commands that measure copies of a model, and what is read from a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.speed.copies import WAYS, Run, command


def test_each_way_is_a_gate_on_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    commands = {each.name: command("ORG/M", each, tmp_path, ["--limit", "5"]) for each in WAYS}
    half, whole, copies = commands.values()
    assert half[:3] == ["taskset", "-c", "0,1"]
    assert whole[:3] == copies[:3] == ["taskset", "-c", "0,1,2,3"]
    assert copies == [*whole, "--candidate-args=--data-parallel-size 2"]
    assert half[3:] == whole[3:]


def test_a_run_says_how_fast_it_was() -> None:
    manifest = {
        "asked": {"answers": 40, "verdicts": 40},
        "tokens": {"candidate": {"output": 600}},
        "evaluation_s": 3.0,
        "engines": {"ready_s": [20.0]},
    }
    run = Run.of(manifest)
    assert run == Run(answers=40, tokens=600, seconds=3.0, start=20.0)
    assert run.rate == 200
