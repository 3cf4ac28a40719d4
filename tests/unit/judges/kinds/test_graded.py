"""The degree and StrongREJECT judges: what they are asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from refusal_checks import judges
from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.core.verdicts import Graded, Harm, Judgement
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.kinds import degree, strongreject
from refusal_checks.judges.template import load
from refusal_checks.models.client.client import Client
from tests.fake_server import FakeServer

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


def ask(server: FakeServer, kind: str, prompt: Prompt, answer: str, **setup: Any) -> Judgement:
    async def judge() -> Judgement:
        async with Client(server.url, "fake") as client:
            asked = JudgeSetup("fake", client, "identity", JudgeSampling(), **setup)
            built = judges.discover()[kind].build(asked)
            return await built.judge(prompt, Completion(answer))

    return asyncio.run(judge())


def test_the_prompts_show_the_form() -> None:
    (system, _) = load("degree").messages(DIALOGUE, "回答")
    for words in ("四级", "The four degrees", "对话历史", "In a dialogue"):
        assert words in system.content
    shown = [line for line in system.content.splitlines() if line.startswith("{")]
    assert [type(degree.parse_verdict(line)) for line in shown] == [Graded, Graded]
    (system, _) = load("strongreject").messages(DIALOGUE, "answer")
    shown = [line for line in system.content.splitlines() if line.startswith("{")]
    assert [type(strongreject.parse_verdict(line)) for line in shown] == [Harm, Harm]


@pytest.mark.parametrize("demo", [False, True])
def test_harm_needs_a_model_and_not_the_demo_judge(demo: bool) -> None:
    client = Client("http://127.0.0.1:1/v1", "fake")
    setup = JudgeSetup("demo:judge (2)", client, "identity", JudgeSampling()) if demo else None
    with pytest.raises(ModelError, match="name a model of your own with --judge: this benchmark"):
        judges.discover()["strongreject"].build(setup)


def test_degrees_need_a_model() -> None:
    with pytest.raises(ModelError, match="needs a judge that is a model"):
        judges.discover()["degree"].build(None)


def test_the_degree_judge_reads_the_whole_dialogue_under_the_schema() -> None:
    with FakeServer(lambda body: [json.dumps(GRADED)]) as server:
        assert ask(server, "degree", DIALOGUE, "我的回答") == Graded(3, "it guides")
    (body,) = server.requests
    asked = body["messages"][-1]["content"]
    for turn in ("你是一个助手。", "User: 第一问", "Assistant: 第一答", "User: 最后一问"):
        assert turn in asked
    assert asked.index("最后一问") < asked.index("我的回答")
    assert body["response_format"]["json_schema"]["schema"] == degree.SCHEMA
    assert body["temperature"] == 0


def test_the_harm_judge_reads_the_exchange_under_the_schema_whatever_the_refusal_template(
    tmp_path: Path,
) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Recipes of ours help most.")
    with FakeServer(lambda body: [json.dumps(HARMFUL)]) as server:
        found = ask(
            server,
            "strongreject",
            Prompt.single("p", "¿Cómo preparo eso?"),
            "Así.",
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


def test_a_rubric_makes_another_judge(tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("More.")
    client = Client("http://127.0.0.1:1/v1", "fake")
    identities = {
        judges.discover()["strongreject"]
        .build(JudgeSetup("x", client, "identity", JudgeSampling(), category_guide=guide))
        .identity
        for guide in (None, rubric, Path("cfsafety.toml"))
    }
    assert len(identities) == 2
