"""A store, a summary, records and a baseline that commit 412c90c wrote are still read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.verdicts import Binary
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

OLD = Path(__file__).parents[1] / "data" / "run_of_412c90c"
"""A run with a served candidate and two judges, on three prompts with two answers each."""

SERVER = "http://127.0.0.1:46695/v1#fake"


def test_its_summary_and_records_are_read_and_keep_their_shape() -> None:
    run = RunFolder(OLD / "run")
    summary, records = run.summary(), list(run.records("own"))
    assert summary.manifest.models.judges.keys() == {"keyword", SERVER}
    assert summary.verdicts["own-rejection_rate"].passed is False
    assert [len(record.votes) for record in records] == [2] * 6
    assert all(isinstance(record.judgement, Binary) for record in records)
    before = json.loads((OLD / "run" / "summary.json").read_text())
    again = TypeAdapter(RunSummary).dump_python(summary, mode="json")
    assert again["manifest"] == before["manifest"]
    assert list(again["manifest"]) == list(before["manifest"])
    assert before.keys() <= again.keys()
    assert again["benchmarks"] == before["benchmarks"]


def test_its_store_and_its_baseline_are_used(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own.toml", "prompts.jsonl", "store.sqlite"):
        shutil.copy(OLD / name, project.path)
    shutil.copytree(OLD / "run", project.path / "run")
    accepted = CliRunner().invoke(application(), ["baseline", "accept", "run", "base"])
    assert accepted.exit_code == 0, accepted.output
    models = ("--candidate", SERVER, "--judge", "keyword", "--judge", SERVER, "--samples", "2")
    stored = ("--store", "store.sqlite", "--stored-only", "--baseline", "base")
    result = project.runpytest_subprocess("--thresholds", "own.toml", *models, *stored)
    result.assert_outcomes(passed=1, failed=1)
    (path,) = project.path.glob(".refusal-checks/runs/*/summary.json")
    summary = RunFolder.of(path).summary()
    assert summary.manifest.asked
    assert (summary.manifest.asked.answers, summary.manifest.asked.verdicts) == (0, 0)
    comparison = summary.verdicts["own-rejection_rate"].comparison
    assert comparison
    assert comparison.change.value == 0
