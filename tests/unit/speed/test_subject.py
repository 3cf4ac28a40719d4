"""The models that are measured."""

from __future__ import annotations

import pytest

from refusal_checks.engines.base import EngineSpec
from refusal_checks.models.spec import Attached, Served
from tests import toy_model
from tests.speed.subject import TOY, Subject


def test_one_model_can_have_two_engines() -> None:
    one = Subject(Served("demo:a", "weights"), Served("bundled", "weights"))
    assert (one.is_shared, one.engines) == (True, "one engine")
    two = one.apart()
    assert (two.is_shared, two.engines) == (False, "an engine each")
    assert isinstance(two.judge, Served)
    assert EngineSpec.of(two.judge).model == "weights"
    assert two.apart() == two


def test_servers_of_others_stay_as_they_are() -> None:
    there = Attached("there", "http://there/v1", "model")
    assert Subject(there, there).apart() == Subject(there, there)


def test_the_toy_has_its_own_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(toy_model.VARIABLE, "elsewhere")
    found = Subject.named(TOY, "")
    assert (found.candidate.name, found.judge.name) == ("demo:aligned", "demo:judge")
    assert found.is_shared


def test_a_rule_is_not_measured() -> None:
    with pytest.raises(SystemExit, match="--judge keyword"):
        Subject.named("ORG/MODEL", "keyword")
