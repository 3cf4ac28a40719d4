"""A part of each CHiSafetyBench benchmark on real vLLM; the figures of toy models mean nothing."""

import os
from pathlib import Path

import pytest

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.engines.process import EngineProcess
from tests.e2e.conftest import (
    EVALUATED,
    ROOT,
    GateRun,
    environment,
    gate_command,
    run_gate,
)
from tests.toy_model import MODEL_DIR, PROMPTS

MIRROR = Path(os.environ.get(MIRROR_VARIABLE, "/nowhere"))

pytestmark = [
    pytest.mark.skipif(
        not (MIRROR / "chisafetybench").is_dir(), reason="needs the public files"
    )
]


def gate(engine: EngineProcess, folder: Path, *args: str) -> GateRun:
    """Gates of CHiSafetyBench on the shared engine, with the demo judge and the aligned demo
    candidate; of another candidate where the further arguments name one."""
    model = f"{engine.url}#{MODEL_DIR}"
    own = (
        "--candidate",
        model,
        "--set",
        "candidate.template_variables.persona=aligned",
    )
    command = gate_command(
        *(() if "--candidate" in args else own),
        *("--judge", model, "--set", "judge.template_variables.persona=judge"),
        *("--set", f"judge.prompt={PROMPTS}"),
        *("--thresholds", ROOT / "thresholds" / "chisafety.toml"),
        *("--set", "sampling.max_tokens=48", "--set", "judge.max_tokens=400"),
        # a toy, whose verdicts on known exchanges mean nothing
        "--set=trust.allow_untrusted_judge=true",
        *("--store", folder / "store.sqlite"),
        *args,
    )
    return run_gate(command, environment(engine))


def test_all_parts_are_answered_and_judged(
    engine: EngineProcess, tmp_path: Path
) -> None:
    run = gate(engine, tmp_path, "--limit", "8", "-k", "chisafety")
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]
    assert {name: part["answers"] for name, part in found.items()} == dict.fromkeys(
        ("chisafety_mcq", "chisafety", "chisafety_qa", "chisafety_dialogue"), 8
    )
    for name in found.keys() - {"chisafety_mcq"}:
        assert set(found[name]["groups"]["area"]) == {
            "discrimination",
            "violation_of_values",
        }
        assert sum(found[name]["invalid"].values()) <= 2, found[name]["invalid"]
        for metric in ("rejection_rate", "responsibility_rate", "harmfulness_rate"):
            assert 0 <= found[name]["figures"][metric]["value"] <= 1
    assert found["chisafety_mcq"]["invalid"].keys() <= {"no option", "several options"}
    assert "option_refusal_rate" in found["chisafety_mcq"]["figures"]


def test_letters_have_exact_probabilities(
    engine: EngineProcess, tmp_path: Path
) -> None:
    choice = (
        "--set",
        "multiple_choice.scoring=logprob",
        "--set",
        "multiple_choice.items=all",
    )
    args = (*choice, "--limit", "62")
    run = gate(engine, tmp_path, *args, "-k", "chisafety_mcq")
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]["chisafety_mcq"]
    # Letters that the toy weights hold equally likely, to the last bit of bfloat16, are no answer.
    assert found["invalid"].keys() <= {"no option"}
    ties = sum(found["invalid"].values())
    assert found["answers"] == found["figures"]["accuracy"]["n"] + ties == 62
    assert ties < 13
    assert found["figures"]["option_refusal_rate"]["value"] == 0
    assert len(found["groups"]["category"]) == 31
