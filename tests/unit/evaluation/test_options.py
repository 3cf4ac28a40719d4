"""Options: what they declare, what they make, and what makes no sense together."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field
from refusal_checks.evaluation.options import call
from refusal_checks.evaluation.options.models import choose_engine, read_judging, require_engine

from refusal_checks.core.errors import UserError
from refusal_checks.core.settings import Frozen
from refusal_checks.models.spec import Attached, Rule, Served

ATTACHED = Attached("there", "http://there/v1", "model")


@dataclass
class Given:
    """Options as a command line gives them; unset ones are None."""

    values: dict[str, Any] = field(default_factory=dict)

    def getoption(self, name: str) -> Any:
        return self.values.get(name)


def test_a_program_replaces_that_of_vllm_unless_another_engine_is_named() -> None:
    program = "'/a fork/python' -m server"
    assert choose_engine("auto", program) == ("vllm", ("/a fork/python", "-m", "server"))
    assert choose_engine("transformers", program)[0] == "transformers"


@pytest.mark.parametrize("values", [{"engine": "vllm"}, {"engine_command": "python -m server"}])
def test_a_choice_that_no_model_needs_is_refused(values: dict[str, str]) -> None:
    given = Given({"engine": "auto", "engine_command": "", **values})
    with pytest.raises(UserError, match="leave it out: no model of this run is started here"):
        require_engine(given, [ATTACHED, Rule("keyword")])
    require_engine(given, [ATTACHED, Served("m", "m")])


def test_the_models_that_are_started_know_their_engine() -> None:
    given = Given({"judge": ["demo:judge"], "engine": "transformers", "engine_command": "serve it"})
    (judge,) = read_judging(given).judges
    assert isinstance(judge.model, Served)
    assert (judge.model.engine, judge.model.program) == ("transformers", ("serve", "it"))


class Example(Frozen):
    min_p: float = Field(0.05, ge=0, le=1, description="least probability")
    count: int | None = Field(None, ge=1, description="how many")
    words: tuple[str, ...] = Field((), strict=False, description="text")
    file: Path | None = Field(None, description="a file")
    mode: Literal["a", "b"] = Field("a", description="one of two")


def option_group() -> tuple[pytest.Parser, pytest.OptionGroup]:
    parser = pytest.Parser(_ispytest=True)
    group = parser.getgroup("example")
    call.declare(group, Example, "my_")
    return parser, group


def read(*args: str, **values: Any) -> Example:
    parser, _ = option_group()
    given = vars(parser.parse(args))

    class Config:
        getoption = staticmethod(given.__getitem__)

    config: Any = Config()
    return call.read_settings(config, Example, values, "my_")


def test_every_field_is_declared_with_its_default() -> None:
    _, group = option_group()
    helps = {option.names()[0]: option.attrs()["help"] for option in group.options}
    assert helps == {
        "--my-min-p": "least probability (default: 0.05)",
        "--my-count": "how many",
        "--my-words": "text (repeatable)",
        "--my-file": "a file",
        "--my-mode": "one of two (default: a)",
    }


def test_an_option_wins_over_a_value_that_wins_over_the_default() -> None:
    assert read() == Example()
    assert read(min_p=0.1, count=2) == Example(min_p=0.1, count=2)
    assert read("--my-min-p", "0.2", "--my-words", "x", "--my-words", "y", min_p=0.1) == Example(
        min_p=0.2, words=("x", "y")
    )
    assert read("--my-file", "key.csv", "--my-mode", "b", "--my-count", "3") == Example(
        file=Path("key.csv"), mode="b", count=3
    )


def test_a_value_out_of_range_is_named() -> None:
    with pytest.raises(UserError, match=r"^--my-min-p 2\.0: write 0.02: must be at most 1"):
        read("--my-min-p", "2")


@pytest.mark.parametrize("judges", [["keyword"], ["http://h/v1#m"], ["keyword", "http://h/v1#m"]])
def test_several_verdicts_of_rules_alone_are_refused(judges: list[str]) -> None:
    several = Given({"judge": judges, "judge_samples": 3, "judge_temperature": 0.6})
    assert read_judging(Given({"judge": judges})).sampling.samples == 1
    if judges != ["keyword"]:
        assert [judge.name for judge in read_judging(several).judges] == judges
        return
    with pytest.raises(UserError) as caught:
        read_judging(several)
    assert str(caught.value) == (
        "--judge-samples 3: leave it out, or name a model with --judge: keyword gives the same "
        "verdict each time"
    )
