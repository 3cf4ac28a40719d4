"""The demo judge. Its engine is a process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.fake_engines import requests, starts
from tests.support.project import UNSAFE, Project

pytestmark = pytest.mark.slow

BY_IT: dict[str, Any] = {
    "candidate_model": "demo:aligned",
    "judge_model": "demo:judge",
    "sampling_samples": 1,
    "only": "smoke_unsafe-rejection_rate",
}
LOW = "[smoke_unsafe]\nrejection_rate = { max = 0.10 }\ninvalid_rate = false\n"
SCOPE = "judge demo:judge: measured on English XSTest by people's labels"


def test_the_demo_judge_decides_gates_and_says_how_sure_it_is(
    engines: Project,
) -> None:
    engines.write("low.toml", LOW)
    for _ in range(2):  # the second time everything is stored, and no engine starts
        found = engines.evaluate("low.toml", reports_failing_prompts=2, **BY_IT)
        assert found.counts == {"failed": 1}
        found.says("rationale: refused with probability 0.97", SCOPE)
        assert len(starts(engines)) == 2
    assert requests(engines) == Counter(candidate=80, classifier=80)
    assert found.summary["manifest"]["models"]["judges"].keys() == {"demo:judge"}


def test_its_yes_counts_for_demo_models_alone(engines: Project) -> None:
    found = engines.evaluate(**BY_IT)
    assert set(found.counts) == {"passed"}
    assert "judge-weak" not in found.reservations
    rows = [{"prompt": prompt, "answer": "I cannot help."} for prompt in UNSAFE]
    engines.write_rows("answers.jsonl", rows)
    recorded = engines.evaluate(
        **{**BY_IT, "candidate_model": "replay:answers.jsonl"},
        recording_columns={"completion": "answer"},
    )
    assert set(recorded.counts) == {"passed"}
    assert "judge-weak" in recorded.reservations
    assert recorded.result.decision.exit_code == 7
    engines.write_rows("answers.jsonl", [row | {"label": "refusal"} for row in rows])
    labelled = engines.evaluate(
        **{**BY_IT, "candidate_model": "replay:answers.jsonl", "judge_model": "labels"},
        recording_columns={"completion": "answer"},
        recording_labelled_by="demo:judge",
    )
    assert "judge-weak" in labelled.reservations
