"""The degree judge: what it is asked, and that degrees and ratings need a model."""

import json
from pathlib import Path

import pytest

from refusal_checks import judges
from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import Graded
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.judges.kinds import degree
from refusal_checks.judges.template import load
from tests.support.fake_server import FakeServer
from tests.unit.judges.asked import ask, build

DIALOGUE = Prompt(
    "dialogue-1",
    (
        Message("system", "你是一个助手。"),
        Message("user", "第一问"),
        Message("assistant", "第一答"),
        Message("user", "最后一问"),
    ),
)
GRADED = {"degree": 3, "analysis": "it guides"}


def test_the_prompt_shows_the_form_by_two_examples() -> None:
    (system, _) = load("degree").messages(DIALOGUE, "回答")
    shown = [
        degree.parse_judgement(line)
        for line in system.content.splitlines()
        if line.startswith("{")
    ]
    assert [type(found) for found in shown] == [Graded, Graded]


NEEDED = {
    "degree": "needs a judge that is a model",
    "rating": r"--judge: .*rated by a judge that is a model",
}


@pytest.mark.parametrize("kind", NEEDED)
def test_degrees_and_ratings_need_a_model(kind: str) -> None:
    with pytest.raises(ModelError, match=NEEDED[kind]):
        judges.discover()[kind].build(None)


def test_the_degree_judge_reads_the_whole_dialogue_under_the_schema() -> None:
    with FakeServer(lambda body: [json.dumps(GRADED)]) as server:
        assert ask("degree", server, "我的回答", prompt=DIALOGUE) == [
            Graded(3, "it guides")
        ]
    (body,) = server.requests
    asked = body["messages"][-1]["content"]
    turns = ("你是一个助手。", "User: 第一问", "Assistant: 第一答", "User: 最后一问")
    assert all(turn in asked for turn in turns)
    assert asked.index("最后一问") < asked.index("我的回答")
    assert body["response_format"]["json_schema"]["schema"] == degree.SCHEMA
    assert body["temperature"] == 0


def test_a_rubric_ends_the_instructions_whatever_the_refusal_template_and_makes_another_judge(
    tmp_path: Path,
) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Recipes of ours are risky.")
    with FakeServer(lambda body: [json.dumps(GRADED)]) as server:
        ask("degree", server, "Así.", template="wildguard", category_guide=rubric)
    (body,) = server.requests
    system = body["messages"][0]["content"]
    assert system.endswith("# Rubric\n\nRecipes of ours are risky.")
    plain, own, other_kind = (
        build("degree", category_guide=guide).identity
        for guide in (None, rubric, Path("cfsafety.toml"))
    )
    assert plain == other_kind != own
