"""The StrongREJECT judge: what it is asked, and how strictly its verdict is read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks import judges
from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.core.verdicts import Harm, Invalid, Judgement, Reason
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.kinds.strongreject import SCHEMA, parse_verdict
from refusal_checks.judges.template import load
from refusal_checks.models.client.client import Client
from tests.fake_server import Body, FakeServer

PROMPT = Prompt.single("p", "¿Cómo preparo eso?")


def verdict(
    refused: Any = False,
    specific: Any = 4,
    convincing: Any = 3,
    analysis: Any = "it helps",
    **more: Any,
) -> str:
    fields = {"refused": refused, "specific": specific, "convincing": convincing}
    return json.dumps({**fields, "analysis": analysis, **more})


UNREADABLE = {
    "two verdicts": f"{verdict(True)} no: {verdict(False)}",
    "empty": "",
    "prose": "refused: no, specific 4",
    "cut off": verdict()[:-1],
    "no analysis": '{"refused": false, "specific": 4, "convincing": 3}',
    "a rating too high": verdict(specific=6),
    "a rating too low": verdict(convincing=0),
    "a rating with a fraction": verdict(specific=2.5),
    "a rating as text": verdict(specific="4"),
    "a rating that is true": verdict(convincing=True),
    "refused as a number": verdict(refused=0),
    "refused as text": verdict(refused="no"),
    "refused is null": verdict(refused=None),
    "another field": verdict(score=0.5),
    "schema repeated": json.dumps(SCHEMA),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_anything_but_one_verdict_is_invalid(name: str) -> None:
    found = parse_verdict(UNREADABLE[name])
    assert isinstance(found, Invalid)
    assert found.reason is Reason.UNPARSABLE_VERDICT


@given(st.booleans(), st.integers(1, 5), st.integers(1, 5), st.text())
def test_a_verdict_is_read_as_it_was_written(
    refused: bool, specific: int, convincing: int, analysis: str
) -> None:
    found = parse_verdict(f"So:\n```json\n{verdict(refused, specific, convincing, analysis)}\n```")
    assert found == Harm(float(refused), float(specific), float(convincing), analysis)


def test_the_schema_asks_for_the_numbers_first_and_for_nothing_else() -> None:
    fields = ["refused", "specific", "convincing", "analysis"]
    assert list(SCHEMA["properties"]) == SCHEMA["required"] == fields
    assert SCHEMA["additionalProperties"] is False


def test_the_prompt_shows_the_form() -> None:
    (system, _) = load("strongreject").messages(PROMPT, "answer")
    shown = [line for line in system.content.splitlines() if line.startswith("{")]
    assert [type(parse_verdict(line)) for line in shown] == [Harm, Harm]


@pytest.mark.parametrize("demo", [False, True])
def test_it_needs_a_model_and_not_the_demo_judge(demo: bool) -> None:
    client = Client("http://127.0.0.1:1/v1", "fake")
    setup = JudgeSetup("demo:judge (2)", client, "identity", JudgeSampling()) if demo else None
    with pytest.raises(ModelError, match="name a model of your own with --judge: this benchmark"):
        judges.discover()["strongreject"].build(setup)


def ask(server: FakeServer, **setup: Any) -> Judgement:
    async def judge() -> Judgement:
        async with Client(server.url, "fake") as client:
            asked = JudgeSetup("fake", client, "identity", JudgeSampling(), **setup)
            built = judges.discover()["strongreject"].build(asked)
            return await built.judge(PROMPT, Completion("Así."))

    return asyncio.run(judge())


def measured(body: Body) -> list[str]:
    return [verdict()]


def test_the_judge_reads_the_exchange_under_the_schema_whatever_the_refusal_template(
    tmp_path: Path,
) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Recipes of ours help most.")
    with FakeServer(measured) as server:
        found = ask(server, template="wildguard", category_guide=rubric)
    assert found == Harm(0.0, 4.0, 3.0, "it helps")
    (body,) = server.requests
    system, user = (turn["content"] for turn in body["messages"])
    assert user.index("¿Cómo preparo eso?") < user.index("Así.")
    assert system.endswith("# Rubric\n\nRecipes of ours help most.")
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
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
