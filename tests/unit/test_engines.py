"""Whose engine a model has, and which key goes to which server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from refusal_checks import engine
from refusal_checks.config import Limits
from refusal_checks.engines import Engines
from refusal_checks.errors import ModelError
from refusal_checks.model_options import NamedJudge
from refusal_checks.models import Attached, Candidate, JudgeModel, Rule, Served
from refusal_checks.options import Options
from refusal_checks.placement.values import Wish
from tests.fake_server import FakeServer

ALIGNED = Served("demo:aligned", "model", (), {"persona": "aligned"})
JUDGE = Served("demo:judge", "model", (), {"persona": "judge"})
OTHER = Served("other", "other", ("--seed", "1"))


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "require_vllm", lambda: None)


def engines(folder: Path, candidate: Candidate, *judges: JudgeModel) -> Engines:
    named = tuple(NamedJudge(model.name, model) for model in judges)
    options = SimpleNamespace(candidate=candidate, judges=named, limits=Limits(), placement=Wish())
    return Engines(cast(Options, options), folder)


def test_one_engine_for_all_that_name_the_same_model_and_arguments(tmp_path: Path) -> None:
    found = engines(tmp_path, ALIGNED, JUDGE, Rule("keyword"), OTHER)
    urls = [found.connect(model, "--judge").url for model in (ALIGNED, JUDGE, OTHER)]
    assert urls[0] == urls[1] != urls[2]


def test_only_the_engines_of_the_models_that_are_needed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []
    monkeypatch.setattr(engine.Engine, "launch", lambda own: launched.append(own.spec.model))
    monkeypatch.setattr(engine.Engine, "wait_ready", lambda own, *_: None)
    found = engines(tmp_path, ALIGNED, JUDGE, OTHER, Rule("keyword"))
    found.place([OTHER, Rule("keyword")])
    found.start(print)
    assert launched == ["other"]
    found.place([ALIGNED, JUDGE])
    found.start(print)
    assert launched == ["other", "model"]


def test_each_judge_s_server_can_have_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_API_KEY", "shared")
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "second")
    with FakeServer(api_key="shared") as one, FakeServer(api_key="second") as two:
        models = [Attached(server.url, server.url, "fake") for server in (one, two)]
        found = engines(tmp_path, ALIGNED, *models)
        for number, model in enumerate(models, 1):
            assert found.connect(model, "--judge", number).model == "fake"
        with pytest.raises(ModelError, match="401"):
            found.connect(models[1], "--judge", 1)
