"""The public originals in a mirror, on real vLLM with a demo candidate and the demo judge."""

import os
from pathlib import Path

import pytest

from tests.e2e.conftest import EVALUATED, RunPersona

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
    run = run_persona(
        "aligned", *own, "--samples", "1", "--set", "sampling.max_tokens=48"
    )
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
