"""The demo judge's own check, on real vLLM."""

from __future__ import annotations

from refusal_checks.judges.trust import canary
from tests.e2e.conftest import RunPersona


def test_the_demo_judge_passes_its_own_floors(run_persona: RunPersona) -> None:
    run = run_persona("aligned", "-m", "judge")
    assert run.status == 0, run.output
    assert "is trusted by its own check" in " ".join(run.output.split())
    found = run.summary["judge"]
    assert found["digest"] == canary.digest()
    figures = {check["figure"]: check["estimate"] for check in found["checks"]}
    assert figures["agreement"]["n"] + figures["injection"]["n"] == len(canary.load())
    assert figures["invalid_rate"]["value"] == 0

    again = run_persona("aligned", "-m", "judge")
    assert again.summary["judge"]["asked"] == 0
