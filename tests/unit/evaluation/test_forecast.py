"""What a run says that it will ask for, and why stored work is done again."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.evaluation.forecast import changes, forecast
from refusal_checks.evaluation.planning import Pending, Plan
from refusal_checks.gates import baseline
from refusal_checks.results.manifest import Manifest

WORK = 1000, 1000
"""Answers and verdicts that are missing."""
MODELS = {"candidate": {"version": "org/model@1"}, "judges": {"org/judge": {"version": "j@1"}}}
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
    return Manifest().extended(**({"models": MODELS, "sampling": {"samples": 5}} | facts))


def run(root: Path, name: str, content: Any) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "summary.json").write_text(json.dumps(content))


def test_the_newest_run_of_the_same_models_tells(tmp_path: Path) -> None:
    slow = THEN | {"evaluation_s": 5480}
    run(tmp_path, "20260101-100000Z-1", {"manifest": slow})
    run(tmp_path, "20260102-100000Z-1", {"manifest": THEN})
    run(tmp_path, "20260103-100000Z-1", {"manifest": slow | {"models": {"judges": {"x": {}}}}})
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
        {"asked": {"answers": 0, "verdicts": 0, "reused": 9}},
        {"evaluation_s": None},
        {"tokens": {}},
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
            "to expect: about 1,200 requests; tokens and time will be known once a run of these "
            "models has finished here"
        )
    assert forecast(manifest(), 0, 0, tmp_path) == ""


PLAN = {
    "mine": [Prompt.single(f"p{number}", f"request {number}") for number in range(4)],
    "other": [Prompt.single("q", "another")],
}
MANIFEST: dict[str, Any] = {
    "candidate": "org/model",
    "models": {
        "candidate": {"version": "org/model@1", "args": [], "template_kwargs": {}},
        "judges": {"org/judge": {"version": "org/judge@1", "args": [], "template": None}},
    },
    "sampling": {"samples": 5, "temperature": 0.6, "seed": 0, "stop": []},
    "multiple_choice": {"scoring": "text"},
    "judge_prompts": {"mine": {"org/judge": "f00d"}, "other": {"org/judge": "f00d"}},
    "judge_sampling": {"max_tokens": 64, "seed": 0},
    "data": {
        "mine": {"sha256": "beef", "limit": None, "max_answer_chars": None},
        "other": {"sha256": "cafe", "limit": None, "max_answer_chars": None},
    },
}
IDS = iter(range(1, 1000))


def changed(path: str, value: Any) -> dict[str, Any]:
    manifest = deepcopy(MANIFEST)
    *places, last = path.split(":")
    inner = manifest
    for place in places:
        inner = inner[place]
    inner[last] = value
    return manifest


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def remember(runs: Path, manifest: dict[str, Any], *completed: str, evaluated: int = 4) -> None:
    """The folder of a run that completed some benchmarks, or came to no end with none."""
    folder = runs / f"20260101-{next(IDS):06}Z-7"
    (folder / "scores").mkdir(parents=True)
    if not completed:
        return
    none = {"prompts": 0, "answers": 0, "figures": {}, "groups": {}, "invalid": {}}
    summary = {"format": 1, "manifest": manifest, "benchmarks": dict.fromkeys(completed, none)}
    (folder / "summary.json").write_text(json.dumps(summary))
    prompts = {
        prompt.id: baseline.PromptScores(baseline.fingerprint(prompt), {})
        for prompt in PLAN["mine"][:evaluated]
    }
    scores = baseline.Scores("mine", Kind.SAFETY, "m", "1", "2026", {}, {}, prompts)
    (folder / "scores" / "mine.json").write_text(baseline.dump(scores))


def said(
    runs: Path, manifest: dict[str, Any], answers: int, verdicts: int, *names: str
) -> list[str]:
    """What a run says that has so much to do for each prompt."""

    def count(plan: Plan) -> Pending:
        prompts = sum(map(len, plan.values()))
        return Pending(answers * prompts, verdicts * prompts)

    plan = {name: PLAN[name] for name in names or ("mine",)}
    return list(
        changes(Manifest.model_validate(manifest), plan, runs / "20270101-000000Z-7", count)
    )


ANSWERS = "4 verdicts to redo, 8 answers to regenerate"
VERDICTS = "4 verdicts to redo, 0 answers to regenerate"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("judge_prompts:mine", {"org/judge": "dead"}, f"judge prompt changed: {VERDICTS}"),
        ("models:judges:org/judge:version", "2", f"judge model changed: {VERDICTS}"),
        ("models:judges:org/judge:args", ["-x"], f"judge model settings changed: {VERDICTS}"),
        ("judge_prompts:mine", {"keyword": "f00d"}, f"judge model changed: {VERDICTS}"),
        ("judge_sampling:max_tokens", 9, f"judge max_tokens changed: {VERDICTS}"),
        ("data:mine:max_answer_chars", 9, f"max_answer_chars changed: {VERDICTS}"),
        ("sampling:temperature", 1.0, f"sampling temperature changed: {ANSWERS}"),
        ("sampling:seed", 1, f"sampling seed changed: {ANSWERS}"),
        ("models:candidate:args", ["-x"], f"candidate args changed: {ANSWERS}"),
        ("models:candidate:version", "2", f"candidate changed: {ANSWERS}"),
        ("candidate", "org/other", f"candidate changed: {ANSWERS}"),
    ],
)
def test_the_condition_that_is_another_is_named(
    runs: Path, path: str, value: Any, line: str
) -> None:
    remember(runs, MANIFEST, "mine")
    answers = 2 if line.endswith(ANSWERS) else 0
    assert said(runs, changed(path, value), answers, 1) == [line]


def test_what_is_no_reason_is_not_named(runs: Path) -> None:
    other = changed("sampling:temperature", 1.0)
    for completed in ((), ("other",)):
        assert said(runs, other, 2, 1) == []
        remember(runs, MANIFEST, *completed)
    assert said(runs, other, 2, 1) == []
    remember(runs, MANIFEST, "mine")
    assert said(runs, MANIFEST, 2, 1) == []
    assert said(runs, other, 0, 0) == []
    assert said(runs, other, 0, 1) == [], "all answers are stored"
    other["judge_prompts"]["mine"] = {"org/judge": "dead"}
    assert said(runs, other, 0, 1) == [f"judge prompt changed: {VERDICTS}"]
    model = changed("models:candidate", {"version": "2", "args": ["-x"], "template_kwargs": {}})
    assert said(runs, model, 2, 1) == [f"candidate changed: {ANSWERS}"]


def test_the_earlier_run_that_is_most_like_this_one_is_compared(runs: Path) -> None:
    remember(runs, MANIFEST, "mine")
    both = changed("sampling:temperature", 1.0)
    both["candidate"] = "org/other"
    remember(runs, both, "mine")
    remember(runs, both)
    assert said(runs, MANIFEST, 2, 1) == []


def test_prompts_that_are_new_are_counted_apart(runs: Path) -> None:
    remember(runs, MANIFEST, "mine", evaluated=1)
    other = changed("data:mine:sha256", "dead")
    assert said(runs, other, 2, 1) == ["data of mine changed: 3 prompts are new"]
    other["data"]["mine"]["limit"] = 4
    other["judge_prompts"]["mine"] = {"org/judge": "dead"}
    assert said(runs, other, 0, 1) == [
        "judge prompt changed: 1 verdicts to redo, 0 answers to regenerate",
        "limit of mine changed: 3 prompts are new",
    ]


def test_benchmarks_with_other_changes_have_lines_of_their_own(runs: Path) -> None:
    remember(runs, MANIFEST, "mine", "other")
    one = changed("judge_prompts:mine", {"org/judge": "dead"})
    assert said(runs, one, 0, 1, "mine", "other") == [
        "judge prompt of mine changed: 4 verdicts to redo, 0 answers to regenerate"
    ]
    one["judge_prompts"]["other"] = {"org/judge": "dead"}
    assert said(runs, one, 0, 1, "mine", "other") == [
        "judge prompt changed: 5 verdicts to redo, 0 answers to regenerate"
    ]


@pytest.mark.parametrize(
    "summary",
    [
        "",
        "[]",
        "{}",
        '{"manifest": {}, "benchmarks": {"mine": {}}}',
    ],
)
def test_what_is_no_summary_is_passed_over(runs: Path, summary: str) -> None:
    remember(runs, MANIFEST, "mine")
    (next(runs.iterdir()) / "summary.json").write_text(summary)
    other = changed("candidate", "org/other")
    assert said(runs, MANIFEST, 2, 1) == []
    remember(runs, MANIFEST, "mine")
    assert said(runs, other, 2, 1) == [f"candidate changed: {ANSWERS}"]
