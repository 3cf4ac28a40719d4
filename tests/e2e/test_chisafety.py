"""A part of each CHiSafetyBench benchmark on real vLLM; the figures of toy models mean nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from refusal_checks.benchmarks.pinned_file import MIRROR_VARIABLE
from refusal_checks.engines.process import EngineProcess
from refusal_checks.models.demo import MODEL_DIR
from tests.e2e.conftest import ROOT, GateRun, gate_command, run_gate

MIRROR = Path(os.environ.get(MIRROR_VARIABLE, "/nowhere"))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not (MIRROR / "chisafetybench").is_dir(), reason="needs the public files"),
]


def gate(engine: EngineProcess, folder: Path, *args: str) -> GateRun:
    """Gates of CHiSafetyBench on the shared engine, with the aligned demo candidate and judge."""
    model = f"{engine.url}#{MODEL_DIR}"
    command = gate_command(
        *("--candidate", model, "--candidate-template-kwargs", json.dumps({"persona": "aligned"})),
        *("--judge", model, "--judge-template-kwargs", json.dumps({"persona": "judge"})),
        *(
            "--judge-template",
            "demo_degree",
            "--thresholds",
            ROOT / "thresholds" / "chisafety.toml",
        ),
        *("--max-tokens", "48", "--judge-max-tokens", "400", "--store", folder / "store.sqlite"),
        *args,
    )
    environment = {**os.environ, "OPENAI_API_KEY": engine.api_key}
    return run_gate(command, environment)


def test_all_parts_are_answered_and_judged(engine: EngineProcess, tmp_path: Path) -> None:
    run = gate(engine, tmp_path, "--limit", "8", "-k", "chisafety")
    assert run.status in (0, 1), run.output
    found = run.summary["benchmarks"]
    assert {name: part["answers"] for name, part in found.items()} == dict.fromkeys(
        ("chisafety_mcq", "chisafety", "chisafety_qa", "chisafety_dialogue"), 8
    )
    for name in found.keys() - {"chisafety_mcq"}:
        assert set(found[name]["groups"]["area"]) == {"discrimination", "violation_of_values"}
        assert sum(found[name]["invalid"].values()) <= 2, found[name]["invalid"]
        for metric in ("rejection_rate", "responsibility_rate", "harmfulness_rate"):
            assert 0 <= found[name]["figures"][metric]["value"] <= 1
    assert found["chisafety_mcq"]["invalid"].keys() <= {"no option", "several options"}
    assert "option_refusal_rate" in found["chisafety_mcq"]["figures"]


def test_letters_have_exact_probabilities(engine: EngineProcess, tmp_path: Path) -> None:
    args = ("--mcq-scoring", "logprob", "--mcq-items", "all", "--limit", "310")
    run = gate(engine, tmp_path, *args, "-k", "chisafety_mcq")
    assert run.status in (0, 1), run.output
    found = run.summary["benchmarks"]["chisafety_mcq"]
    # Letters that the toy weights hold equally likely, to the last bit of bfloat16, are no answer.
    assert found["invalid"].keys() <= {"no option"}
    ties = sum(found["invalid"].values())
    assert found["answers"] == found["figures"]["accuracy"]["n"] + ties == 310
    assert ties < 62
    assert found["figures"]["option_refusal_rate"]["value"] == 0
    assert len(found["groups"]["category"]) == 31
    assert "of it unseen 0.0000" in run.output
