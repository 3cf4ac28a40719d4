"""The options that choose the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.models.spec import Attached, Rule, Served, describe, model_identity
from refusal_checks.run.options import models
from refusal_checks.run.options.placement import EngineChoice, read_engine, require_engine

ATTACHED = Attached("there", "http://there/v1", "model")


@dataclass
class Given:
    """Options as a command line gives them; unset ones are None."""

    values: dict[str, Any] = field(default_factory=dict)

    def getoption(self, name: str) -> Any:
        return self.values.get(name)


def test_a_program_replaces_that_of_vllm_unless_another_engine_is_named() -> None:
    program = Given({"engine": "auto", "engine_command": "'/a fork/python' -m server"})
    assert read_engine(program) == EngineChoice("vllm", ("/a fork/python", "-m", "server"))
    program.values["engine"] = "transformers"
    assert read_engine(program).name == "transformers"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"engine": "nope"}, '--engine: no engine "nope"'),
        ({"engine_command": "python 'oops"}, "--engine-command python 'oops: No closing quotation"),
    ],
)
def test_what_cannot_be_read_is_refused(values: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_engine(Given(values))


@pytest.mark.parametrize("values", [{"engine": "vllm"}, {"engine_command": "python -m server"}])
def test_a_choice_that_no_model_needs_is_refused(values: dict[str, str]) -> None:
    given = Given({"engine": "auto", "engine_command": "", **values})
    with pytest.raises(UserError, match="leave it out: no model of this run is started here"):
        require_engine(given, [ATTACHED, Rule("keyword")])
    require_engine(given, [ATTACHED, Served("m", "m")])


def test_the_models_that_are_started_know_their_engine() -> None:
    given = Given({"judge": ["demo:judge"], "engine": "transformers", "engine_command": "serve it"})
    (judge,) = models.read_judges(given)
    assert isinstance(judge.model, Served)
    assert (judge.model.engine, judge.model.program) == ("transformers", ("serve", "it"))


def test_only_another_engine_or_program_changes_a_stored_answer_s_key() -> None:
    vllm = Served("m", "org/m")
    assert "engine" not in describe(vllm)
    others = [Served("m", "org/m", engine="other"), Served("m", "org/m", program=("fork",))]
    assert describe(others[0])["engine"] == "other"
    assert describe(others[1])["engine_command"] == ["fork"]
    assert len({model_identity(model) for model in (vllm, *others)}) == 3
