"""Engines that a run starts: how often, when, and what one that fails means.

Each engine is a process, a fake vLLM: that is what these tests are about.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from refusal_checks.api.evaluate import NotStartedError
from refusal_checks.io.files import sha256
from refusal_checks.models.identity import model_identity
from refusal_checks.models.model_names import Served
from tests.support.fake_engines import DEMO, TWO, orphans, requests, starts
from tests.support.project import (
    CHECK,
    KEYWORD,
    PROMPTS,
    SAFE_GATE,
    Outcome,
    Project,
    wait_for,
)
from tests.toy_model import MODEL_DIR

PERSONAS = [{"mood": 1}, {"mood": 2}]
PANEL = {
    **DEMO,
    "judge_model": ["demo:writer", "demo:writer"],
    "judge_template_variables": PERSONAS,
}
TURNS = {**TWO, "engine_placement": "turns"}


def require_no_orphans(project: Project) -> None:
    wait_for("the engines' processes to end", lambda: not orphans(project.path))


def test_judges_of_one_model_share_the_candidate_s_engine(engines: Project) -> None:
    found = engines.evaluate(**PANEL)
    assert found.counts == {"passed": 3}
    found.says(
        "candidate demo:aligned, judged by demo:writer (1), demo:writer (2)",
        "judges disagree on 0 of 80 answers to smoke_safe",
        "demo models are toys",
    )
    assert len(starts(engines)) == 1
    require_no_orphans(engines)
    engines.evaluate(**PANEL)
    assert len(starts(engines)) == 1, "everything is stored"


def test_a_start_that_fails_ends_the_run_once(engines: Project) -> None:
    engines.setenv("VLLM_FAKE", "fail")
    with pytest.raises(NotStartedError) as caught:
        engines.evaluate(reports_html="report.html", **DEMO)
    said = str(caught.value)
    assert said.startswith("vLLM ended before it was ready: ")
    assert said.count("the model has two left feet") == 1
    for words in ("command: ", "exit status: 3", "engine-0.log"):
        assert words in said
    assert caught.value.result.decision.answer == "open"
    assert "Not decided" in Path("report.html").read_text()
    assert len(starts(engines)) == 1


def test_a_judge_s_engine_that_does_not_start_ends_the_run_and_answers_are_kept(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "late-fail")
    with pytest.raises(NotStartedError, match="the judge has gone home"):
        engines.evaluate(**TWO)
    require_no_orphans(engines)
    assert requests(engines) == {"candidate": PROMPTS}, "while the other one loaded"
    engines.patch.delenv("VLLM_FAKE")
    assert engines.evaluate(**TWO).counts == {"passed": 3}
    assert requests(engines)["candidate"] == PROMPTS, "they were stored"
    assert len(starts(engines)) == 2 + 1, "the judge's engine alone"


def test_a_check_of_judges_that_an_engine_s_end_breaks_off_is_made_again(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "die-once")
    engines.thresholds(SAFE_GATE + CHECK % 0.01)
    found = engines.evaluate(**DEMO)
    assert len(starts(engines)) == 2
    assert found.result.summary.judge, (
        "no gate is decided before the judges are checked"
    )


def test_of_two_engines_only_the_one_that_died_is_started_again(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "die-once")
    found = engines.evaluate(**TWO)
    assert found.counts == {"passed": 3}
    found.says("vLLM ended during the run and was started again, once")
    assert len(starts(engines)) == 2 + 1
    assert requests(engines)["candidate"] < 2 * PROMPTS, "stored answers are kept"


def test_an_engine_that_dies_again_makes_errors_and_tells_why_once(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "die")
    found = engines.evaluate(**DEMO)
    assert found.counts == {}
    assert found.answer == "open"
    found.says("vLLM ended during the run for the second time")
    assert len(starts(engines)) == 2
    require_no_orphans(engines)


def placement(found: Outcome) -> str:
    """The kind of placement that a run's manifest tells of."""
    return str(found.summary["execution"]["placement"]["kind"])


def test_in_turns_the_judge_starts_when_the_candidate_has_stopped(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "late-fail")
    found = engines.evaluate(**TURNS)
    assert found.answer == "open"
    first, second = starts(engines)
    assert first.startswith("0 running")
    assert second.startswith("0 running")
    assert "--max-model-len 512" in second
    assert placement(found) == "turns"
    engines.patch.delenv("VLLM_FAKE")
    assert engines.evaluate(**TURNS).counts == {"passed": 3}
    assert requests(engines) == {"candidate": PROMPTS, "judge": PROMPTS}
    assert len(starts(engines)) == 2 + 1, "the judge's engine alone"
    again = engines.evaluate(**TURNS)
    assert len(starts(engines)) == 2 + 1
    assert placement(again) == "none"


def test_a_model_without_a_chat_template_is_refused_before_an_engine_starts(
    engines: Project,
) -> None:
    model = engines.path / "model"
    shutil.copytree(MODEL_DIR, model)
    (model / "chat_template.jinja").unlink()
    run = {"candidate_model": str(model), "sampling_samples": 1, **KEYWORD}
    engines.refuses(
        f'candidate.model {model}: give candidate.args="--chat-template FILE": its',
        **run,
    )
    assert starts(engines) == []
    template = f"--chat-template {MODEL_DIR / 'chat_template.jinja'}"
    found = engines.evaluate(candidate_args=template, **run)
    assert found.counts == {"passed": 3}
    facts = found.result.summary.manifest.models.candidate
    assert facts.files == {template.split()[1]: sha256(Path(template.split()[1]))}
    named = Served(str(model), str(model), facts.args)
    assert facts.fingerprint == model_identity(named), "as the store's keys have it"
