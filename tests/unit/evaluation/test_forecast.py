"""What a run says that it will ask for."""

import json
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.evaluation.forecast import forecast
from refusal_checks.results.manifest import Manifest

WORK = 1000, 1000
"""Answers and verdicts that are missing."""
MODELS = {
    "candidate": {"version": "org/model@1"},
    "judges": {"org/judge": {"version": "j@1"}},
}
THEN: dict[str, Any] = {
    "models": MODELS,
    "asked": {"answers": 800, "verdicts": 800, "reused": 0},
    "tokens": {
        "candidate": {"requests": 160, "prompt": 3_285, "output": 20_451},
        "judge": {"requests": 800, "prompt": 74_651, "output": 18_401, "verdicts": 800},
    },
    "evaluation_s": 54.8,
    "engines": {"started": ["org/model"], "ready_s": [62.0]},
}


def manifest(**facts: Any) -> Manifest:
    return Manifest().extended(
        **({"models": MODELS, "sampling": {"samples": 5}} | facts)
    )


def run(root: Path, name: str, content: Any) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "summary.json").write_text(json.dumps(content))


def test_the_newest_run_of_the_same_models_tells(tmp_path: Path) -> None:
    slow = THEN | {"evaluation_s": 5480}
    run(tmp_path, "20260101-100000Z-1", {"manifest": slow})
    run(tmp_path, "20260102-100000Z-1", {"manifest": THEN})
    run(
        tmp_path,
        "20260103-100000Z-1",
        {"manifest": slow | {"models": {"judges": {"x": {}}}}},
    )
    run(tmp_path, "20260104-100000Z-1", [])
    (tmp_path / "20260105-100000Z-1").mkdir()
    assert forecast(manifest(), *WORK, tmp_path) == (
        "to expect: about 1,200 requests, 150,000 tokens, 68 s after 62 s for the engines to start "
        "(as run 20260102-100000Z-1 took)"
    )


@pytest.mark.parametrize(
    "lacking",
    [
        {"models": {}},
        {"evaluation_s": None},
        {"tokens": {"candidate": {"requests": 3}, "judge": {"requests": 3}}},
    ],
)
def test_without_an_earlier_run_only_the_requests_are_known(
    tmp_path: Path, lacking: dict[str, Any]
) -> None:
    run(tmp_path, "20260102-100000Z-1", {"manifest": THEN | lacking})
    (tmp_path / "20260103-100000Z-1").mkdir()
    for root in (tmp_path, tmp_path / "none"):
        assert forecast(manifest(), *WORK, root) == (
            "to expect: about 1,200 requests; tokens and time are shown once a run of these "
            "models has finished here"
        )
    assert forecast(manifest(), 0, 0, tmp_path) == ""
