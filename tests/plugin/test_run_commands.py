"""``refusal-checks runs`` on runs that were made."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError
from tests.plugin.conftest import Project, careless, refused


def call(*args: str | Path) -> str:
    words = [str(arg) for arg in args]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


def shown(lines: list[str]) -> list[str]:
    """What the terminal said of the run; its answer, the last, may take several lines."""
    first = next(i for i, line in enumerate(lines) if "= refusal checks =" in line)
    last = next(
        i for i, line in enumerate(lines) if i > first and line.startswith("===")
    )
    return [line for line in lines[first + 1 : last] if line]


def test_a_run_is_listed_shown_and_exported(project: Project) -> None:
    project.server.answer = careless
    first = project.gate()
    listed = call("runs", "list").splitlines()
    assert listed[0].split() == [
        *(
            "run",
            "started",
            "candidate",
            "judge",
            "passed",
            "failed",
            "waived",
            "errors",
            "took",
        )
    ]
    run, _, _, candidate, judge, *counts, took = listed[1].split()
    assert counts == ["1", "2", "0", "0"]
    assert candidate == judge == project.model
    assert took.startswith("0:0")
    for name in ("last", run, project.runs[0]):
        again = call(
            "runs", "list", name, "-v", "--runs", project.runs[0].parent
        ).splitlines()
        assert [line for line in again if line] == shown(first.outlines)
    assert "320 answers" in call("runs", "export", "last", "all.jsonl")
    lines = (project.path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["benchmark"] for row in rows} == {"smoke_unsafe", "smoke_safe"}
    assert {row["label"] for row in rows} == {"compliance"}


def test_runs_that_did_not_end_are_listed_too(project: Project) -> None:
    runs = project.path / "runs"
    broken = '{"candidate": "org/\\u001b[31mmodel", "judge": "j"}'
    name = "20260102-030405Z-6"
    project.write(f"runs/{name}/manifest.json", broken)
    times = '"started": "2026-01-02T03:04:05", "finished": "2026-01-02T03:04:05Z"'
    odd = [
        "[]",
        '{"manifest": [1], "verdicts": [], "errors": 7}',
        '{"verdicts": {"gate": null}}',
        "{}",
        f'{{"format": 1, "manifest": {{{times}}}, "benchmarks": {{}}}}',
    ]
    for number, text in enumerate(odd):
        project.write(f"runs/20260102-030406Z-{number}/summary.json", text)
    listed = call("runs", "list", "--runs", runs).splitlines()
    assert listed[1].split() == [
        name,
        "2026-01-02",
        "03:04",
        "org/model",
        "j",
        "not",
        "ended",
    ]
    assert [line.split()[-1] for line in listed[2:]] == ["readable"] * 4 + ["?"]
    assert call("runs", "list", "--runs", project.path / "no").endswith(
        "no runs found\n"
    )
    with pytest.raises(DataError, match=r"summary\.json: cannot be read"):
        call("runs", "list", name, "--runs", runs)


def test_runs_lie_where_the_option_says_and_are_found_there(project: Project) -> None:
    """Relative to the folder of the call; the store stays where it is."""
    few = ("-k", "smoke_safe", "--samples", "1")
    there = f"../{project.path.name}-moved/runs"
    moved = (project.path / there).resolve()
    project.gate("--runs", there, *few).assert_outcomes(passed=1)
    (run,) = moved.iterdir()
    assert (run / ".gitignore").read_text() == "*\n"
    assert not (moved / ".gitignore").exists()
    own = project.path / ".refusal-checks"
    assert sorted(path.name for path in own.iterdir()) == [".gitignore", "store.sqlite"]
    assert call("runs", "list", "--runs", moved).splitlines()[1].startswith(run.name)

    project.setenv("REFUSAL_CHECKS_RUNS", there)
    result = project.gate("--baseline", "last", *few)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*0 answers to generate, 0 verdicts*", f"run folder {moved}/*"]
    )
    call("runs", "list", run.name)
    call("store", "gc", "--dry-run")

    ini = project.path / "tox.ini"
    ini.write_text(f"{ini.read_text()}\nrefusal_checks_runs = {there}\n")
    project.setenv("REFUSAL_CHECKS_RUNS", "nowhere")
    project.gate(*few).assert_outcomes(passed=1)
    assert len(list(moved.iterdir())) == 3
    assert len(call("runs", "list").splitlines()) == 4
    file = project.write("file", "")
    result = project.gate(f"--runs={file}", *few)
    refused(result, f"--runs {file}: name a folder that can be written: ")
