"""A judge that cannot be built says for which benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.panel import Way, panels
from refusal_checks.models.client.client import Client
from refusal_checks.models.spec import Rule


def test_the_benchmark_that_needs_a_model_is_named() -> None:
    with pytest.raises(ModelError, match=r"^chisafety_qa, own: name a model with --judge: "):
        panels({"chisafety_qa": Way("degree"), "own": Way("degree")}, [Rule("keyword")], False)


WAYS = {"xstest": Way("refusal"), "graded": Way("degree"), "rated": Way("strongreject")}


def setups(folder: Path, said: list[str]) -> list[JudgeSetup]:
    """The bundled judge, and a model."""
    client = Client("http://127.0.0.1:9/v1", "m")
    sampling = JudgeSampling()
    return [
        JudgeSetup("bundled", client, "b", sampling, note=said.append, folder=folder),
        JudgeSetup("org/j", client, "j", sampling),
    ]


@pytest.mark.parametrize("way", ["degree", "rating", "strongreject", "multiple_choice"])
def test_the_bundled_judge_alone_is_refused_where_more_is_asked_for(
    way: str, tmp_path: Path
) -> None:
    alone = setups(tmp_path, [])[:1]
    wanted = r"^own: name a judge model beside bundled with a second --judge, or leave them out"
    with pytest.raises(ModelError, match=wanted):
        panels({"xstest": Way("refusal"), "own": Way(way)}, alone, False)


@pytest.mark.parametrize("order", [1, -1])
def test_what_the_bundled_judge_cannot_judge_is_the_other_s_and_that_is_said(
    tmp_path: Path, order: int
) -> None:
    said: list[str] = []
    found = panels(WAYS, setups(tmp_path, said)[::order], False)
    names = {name: sorted(judge.name for judge in panel) for name, panel in found.items()}
    assert names == {"xstest": ["bundled", "org/j"], "graded": ["org/j"], "rated": ["org/j"]}
    assert said == ["it judges refusals only; org/j alone: graded, rated"]
