"""``refusal-checks runs`` on runs that were made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError
from tests.fake_server import FakeServer
from tests.plugin.conftest import RunGate, careless


def call(*args: str | Path) -> Result:
    return CliRunner().invoke(application(), [str(arg) for arg in args], catch_exceptions=False)


def shown(result: pytest.RunResult) -> list[str]:
    """What the terminal said of the run."""
    lines = result.outlines
    first = next(i for i, line in enumerate(lines) if "= refusal checks =" in line)
    last = next(i for i, line in enumerate(lines) if line.startswith("May it ship? "))
    return [line for line in lines[first + 1 : last + 1] if line]


def test_a_run_is_listed_shown_and_exported(
    project: pytest.Pytester, run_gate: RunGate, server: FakeServer
) -> None:
    server.answer = careless
    first = run_gate()
    runs = project.path / ".refusal-checks" / "runs"
    listed = call("runs", "list", "--runs", runs).output.splitlines()
    assert listed[0].split() == [
        *("run", "started", "candidate", "judge", "passed", "failed", "waived", "errors", "took")
    ]
    run, _, _, candidate, judge, passed, failed, waived, errors, took = listed[1].split()
    assert (passed, failed, waived, errors) == ("1", "2", "0", "0")
    assert candidate == judge == f"{server.url}#fake"
    assert took.startswith("0:0")
    for name in ("last", run, runs / run):
        again = call("runs", "show", name, "-v", "--runs", runs).output.splitlines()
        assert [line for line in again if line] == shown(first)
    export = ("runs", "export", "last", str(project.path / "all.jsonl"), "--runs", str(runs))
    # In a process of its own: pytester has its tests forget what they import.
    made = subprocess.run(
        [sys.executable, "-c", "from refusal_checks.cli import main; main()", *export],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "320 answers" in made.stdout
    lines = (project.path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["benchmark"] for row in rows} == {"smoke_unsafe", "smoke_safe"}
    assert {row["label"] for row in rows} == {"compliance"}


def test_a_verbose_run_is_shown_verbosely(project: pytest.Pytester, run_gate: RunGate) -> None:
    result = run_gate("-v", "-k", "smoke_safe")
    runs = project.path / ".refusal-checks" / "runs"
    again = call("runs", "show", "last", "-v", "--runs", runs).output.splitlines()
    assert [line for line in again if line] == shown(result)


def test_runs_that_did_not_end_are_listed_too(project: pytest.Pytester) -> None:
    runs = project.path / "runs"
    broken = runs / "20260102-030405-6"
    broken.mkdir(parents=True)
    (broken / "provenance.json").write_text('{"candidate": "org/\\u001b[31mmodel", "judge": "j"}')
    odd = ["[]", '{"manifest": [1], "verdicts": [], "errors": 7}', '{"verdicts": {"gate": null}}']
    times = '"started": "2026-01-02T03:04:05", "finished": "2026-01-02T03:04:05Z"'
    odd += ["{}", '{"manifest": {TIMES}, "benchmarks": {}}'.replace("TIMES", times)]
    for number, text in enumerate(odd):
        other = runs / f"20260102-030406-{number}"
        other.mkdir()
        (other / "summary.json").write_text(text)
    listed = call("runs", "list", "--runs", runs).output.splitlines()
    assert listed[1].split() == [
        *(broken.name, "2026-01-02", "03:04", "org/model", "j", "not", "ended")
    ]
    assert [line.split()[-1] for line in listed[2:]] == ["readable"] * 4 + ["?"]
    assert call("runs", "list", "--runs", project.path / "no").output.endswith("no runs found\n")
    with pytest.raises(DataError, match=r"summary\.json: cannot be read"):
        call("runs", "show", broken.name, "--runs", runs)


def test_runs_lie_where_the_option_says_and_are_found_there(
    project: pytest.Pytester,
    run_gate: RunGate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Relative to the folder of the call; the store stays where it is."""
    few = ("-k", "smoke_safe", "--samples", "1")
    there = f"../{project.path.name}-moved/runs"
    moved = (project.path / there).resolve()
    run_gate("--runs", there, *few).assert_outcomes(passed=1)
    (run,) = moved.iterdir()
    assert (run / ".gitignore").read_text() == "*\n"
    assert not (moved / ".gitignore").exists()
    own = project.path / ".refusal-checks"
    assert sorted(path.name for path in own.iterdir()) == [".gitignore", "store.sqlite"]
    assert call("runs", "list", "--runs", moved).output.splitlines()[1].startswith(run.name)

    monkeypatch.setenv("REFUSAL_CHECKS_RUNS", there)
    result = run_gate("--baseline", "last", *few)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*0 answers to generate, 0 verdicts*", f"run folder {moved}/*"])
    assert call("runs", "show", run.name).exit_code == 0
    assert call("store", "gc", "--dry-run").exit_code == 0

    ini = project.path / "tox.ini"
    ini.write_text(f"{ini.read_text()}\nrefusal_checks_runs = {there}\n")
    monkeypatch.setenv("REFUSAL_CHECKS_RUNS", "nowhere")
    run_gate(*few).assert_outcomes(passed=1)
    assert len(list(moved.iterdir())) == 3
    assert len(call("runs", "list").output.splitlines()) == 4
    file = project.path / "file"
    file.touch()
    refused = run_gate(f"--runs={file}", *few)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([f"*--runs {file}: name a folder that can be written: *"])
