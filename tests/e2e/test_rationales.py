"""``--rationales offenders`` on real vLLM, with the toy judge."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import RunPersona

FEW = ("-k", "smoke_unsafe-rejection", "--samples", "1", "--max-tokens", "96")


def test_verdicts_alone_cost_few_tokens_and_reasons_come_afterwards(
    run_persona: RunPersona, tmp_path: Path
) -> None:
    """The toy has never seen a verdict alone, so its verdicts decide only where it is told to."""
    own = (*FEW, "--allow-untrusted-judge", "--store", tmp_path / "store.sqlite")
    alone = run_persona("regressed", *own, "--rationales", "offenders")
    assert alone.status == 1, alone.output
    found = alone.summary["benchmarks"]["smoke_unsafe"]
    reasons = found["reasons"]
    assert (reasons["answers"], reasons["missing"]) == (found["answers"], 0)
    assert reasons["sampled"] == reasons["given"] == 20 < reasons["asked"] < 80
    assert "rationale: " in alone.output
    assert found["invalid"] == {}

    whole = run_persona("regressed", *own)
    assert whole.status == 1, whole.output
    tokens = [run.summary["manifest"]["tokens"]["judge"] for run in (alone, whole)]
    written = [each["output"] / each["verdicts"] for each in tokens]
    assert written[0] < 0.75 * written[1]  # reasons that were asked for afterwards are counted, too

    before = tokens[1]["verdicts"]
    again = run_persona("regressed", *own, "--rationales", "offenders")
    assert again.summary["manifest"]["tokens"]["judge"]["verdicts"] == 0 < before
    assert again.summary["benchmarks"] == alone.summary["benchmarks"]
