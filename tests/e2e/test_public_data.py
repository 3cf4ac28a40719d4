"""The public originals in a mirror, on real vLLM with a demo candidate and the demo judge."""

import os
from pathlib import Path

import pytest

from refusal_checks.benchmarks.suites.cfsafety import CATEGORIES
from tests.e2e.conftest import EVALUATED, ROOT, RunPersona

pytestmark = [
    pytest.mark.skipif(
        "REFUSAL_CHECKS_DATA" not in os.environ,
        reason="REFUSAL_CHECKS_DATA names no mirror of the public data",
    )
]

GATES = """
[xstest_safe]
[xstest_unsafe]
[jailbreakbench]
[harmbench]
[deccp_censored]
"""

PROMPTS = {
    "xstest_safe": 250,
    "xstest_unsafe": 200,
    "jailbreakbench": 100,
    "harmbench": 400,
    "deccp_censored": 95,
}


@pytest.mark.parametrize("limit", [20, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_all_public_originals_run(
    run_persona: RunPersona, tmp_path: Path, limit: int
) -> None:
    gates = tmp_path / "gates.toml"
    gates.write_text(GATES)
    own = ("--thresholds", gates, "-k", "not smoke", "--limit", str(limit))
    prompts = {name: min(limit, number) for name, number in PROMPTS.items()}
    run = run_persona("aligned", *own, "--samples", "1", "--max-tokens", "48")
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]
    assert {name: found[name]["prompts"] for name in found} == prompts
    for name, benchmark in found.items():
        # The toy model has learnt other prompts; to some of these it says nonsense.
        faults = {
            why: n
            for why, n in benchmark["invalid"].items()
            if why != "degenerate answer"
        }
        assert set(faults) <= {"prompt too long", "empty answer"}, name
        assert sum(faults.values()) <= 0.05 * prompts[name], name
        assert "rejection_rate" in benchmark["figures"]
    data = run.summary["manifest"]["data"]
    assert all(len(data[name]["sha256"]) == 64 for name in PROMPTS)


MIRROR = Path(os.environ.get("REFUSAL_CHECKS_DATA", "/nowhere"))


@pytest.mark.skipif(not (MIRROR / "cfsafety").is_dir(), reason="needs CFSafety's table")
def test_a_stratified_part_is_rated(run_persona: RunPersona, tmp_path: Path) -> None:
    shipped = (ROOT / "thresholds" / "cfsafety.toml").read_text(encoding="utf-8")
    gates = tmp_path / "cfsafety.toml"
    # The check of a toy judge would take longer than the part.
    check = shipped.index("[judge.check]")
    rest = shipped[shipped.index("[cfsafety]") :]
    gates.write_text(shipped[:check] + rest, encoding="utf-8")
    few = ("--limit", "48", "--samples", "1", "--max-tokens", "48", "-k", "cfsafety")
    run = run_persona("aligned", "--thresholds", gates, *few)
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]["cfsafety"]
    assert (
        40 < found["prompts"] == found["answers"] <= 48
    )  # translations are drawn together
    assert run.summary["manifest"]["data"]["cfsafety"]["limit"] == 48
    assert set(found["groups"]["category"]) == set(CATEGORIES)
    assert sum(found["invalid"].values()) <= 10, found["invalid"]
    for score in found["safety_scores"].values():
        assert 0 <= score <= 5
    # Probabilities, not labels: scores are no whole numbers.
    assert any(score % 1 for score in found["safety_scores"].values())


def test_scores_fall_along_answers_that_get_worse(
    run_persona: RunPersona, tmp_path: Path
) -> None:
    """The figure means nothing of a toy judge; that each request has one does."""
    data = ROOT / "refusal_checks" / "benchmarks" / "suites" / "data"
    lines = (data / "rating_gradient.csv").read_text(encoding="utf-8").splitlines()
    answers = tmp_path / "answers.csv"
    # Six requests with six answers each, for speed.
    answers.write_text("\n".join(lines[:37]), encoding="utf-8")
    run = run_persona(
        "aligned",
        "--thresholds",
        ROOT / "thresholds" / "rating_gradient.toml",
        "--candidate",
        f"replay:{answers}",
        "--set",
        "recording.partial=true",
        "-k",
        "gradient",
    )
    assert run.status in EVALUATED, run.output
    requests = run.summary["benchmarks"]["rating_gradient"]["groups"]["request"]
    assert len(requests) == 6
    for figures in requests.values():
        assert -1 <= figures["step_correlation"]["value"] <= 1
