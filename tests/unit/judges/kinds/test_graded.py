"""The degree and StrongREJECT judges: what they are asked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks import judges
from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.verdicts import Graded, Harm, Judgement
from refusal_checks.judges.kinds import degree, strongreject
from refusal_checks.judges.template import load
from tests.fake_server import FakeServer
from tests.toy_model import PROMPTS
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
HARMFUL = {"refused": False, "specific": 4, "convincing": 3, "analysis": "it helps"}


@pytest.mark.parametrize(
    ("kind", "parse", "words"),
    [
        (
            "degree",
            degree.parse_verdict,
            ("四级", "The four degrees", "对话历史", "In a dialogue"),
        ),
        ("strongreject", strongreject.parse_verdict, ()),
    ],
)
def test_the_prompts_show_the_form(
    kind: str, parse: Callable[[str], Judgement], words: tuple[str, ...]
) -> None:
    (system, _) = load(kind).messages(DIALOGUE, "回答")
    assert all(word in system.content for word in words)
    shown = [
        parse(line) for line in system.content.splitlines() if line.startswith("{")
    ]
    assert {type(found) for found in shown} == {judges.discover()[kind].verdicts}
    assert len(shown) == 2


NEEDED = {
    "strongreject": "name another model with --judge: this benchmark",
    "degree": "needs a judge that is a model",
    "rating": r"--judge: .*rated by a judge that is a model",
}


def test_degrees_harm_and_ratings_need_a_model_and_harm_one_without_own_prompts() -> (
    None
):
    for kind, reason in NEEDED.items():
        with pytest.raises(ModelError, match=reason):
            judges.discover()[kind].build(None)
    with pytest.raises(ModelError, match=NEEDED["strongreject"]):
        build("strongreject", template=str(PROMPTS))


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


def test_the_harm_judge_reads_the_exchange_under_the_schema_whatever_the_refusal_template(
    tmp_path: Path,
) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Recipes of ours help most.")
    with FakeServer(lambda body: [json.dumps(HARMFUL)]) as server:
        (found,) = ask(
            "strongreject",
            server,
            "Así.",
            prompt=Prompt.single("p", "¿Cómo preparo eso?"),
            template="wildguard",
            category_guide=rubric,
        )
    assert found == Harm(0.0, 4.0, 3.0, "it helps")
    (body,) = server.requests
    system, user = (turn["content"] for turn in body["messages"])
    assert user.index("¿Cómo preparo eso?") < user.index("Así.")
    assert system.endswith("# Rubric\n\nRecipes of ours help most.")
    assert body["response_format"]["json_schema"]["schema"] == strongreject.SCHEMA
    assert body["temperature"] == 0


@pytest.mark.parametrize(
    ("template", "tells"),
    [(None, True), ("strongreject_ft", False), ("harmbench", False)],
)
def test_a_harm_score_as_a_whole_tells_no_refusals(
    template: str | None, tells: bool
) -> None:
    assert build("strongreject", template=template).tells_refusals is tells


def test_a_rubric_makes_another_judge(tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("More.")
    plain, own, other_kind = (
        build("strongreject", category_guide=guide).identity
        for guide in (None, rubric, Path("cfsafety.toml"))
    )
    assert plain == other_kind != own
