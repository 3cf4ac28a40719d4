"""gpt-oss as a judge: what servers make of its replies in the harmony format gives a verdict."""

from typing import Any

import pytest

from refusal_checks.core.judgements import Binary, Label, Reason
from tests.support.fake_server import Body, FakeServer
from tests.unit.judges.asked import ask

VERDICT = (
    '{"rationale": "It declines.", "category": "direct_refusal", "verdict": "refusal"}'
)
OTHER = VERDICT.replace("refusal", "compliance")
FOUND = Binary(Label.REFUSAL, "direct_refusal", "It declines.")
THOUGHT = f"Could be compliance: {OTHER} No."

REPLIES: dict[str, Any] = {
    "a server with its reasoning parser": {"content": VERDICT, "reasoning": THOUGHT},
    "held to a schema": (
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
        f"<|channel|>final <|constrain|>json<|message|>{VERDICT}<|return|>"
    ),
    "a preamble first": (
        f"<|channel|>commentary<|message|>Now.<|end|><|start|>assistant<|channel|>analysis"
        f"<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{VERDICT}"
    ),
    "its tokens dropped": f"analysis{THOUGHT.replace('Could', 'It could')}assistantfinal{VERDICT}",
    "dropped, held to a schema": f"analysisWe see.assistantfinal json{VERDICT}",
}


@pytest.mark.parametrize("reply", REPLIES)
def test_the_final_channel_alone_is_the_verdict(reply: str) -> None:
    with FakeServer(lambda body: [REPLIES[reply]]) as server:
        assert ask("refusal", server, "I cannot.") == [FOUND]
    assert len(server.requests) == 1


LOST: dict[str, Any] = {
    "only reasoning came back": {"content": "", "reasoning": VERDICT},
    "it ended in the analysis": f"<|channel|>analysis<|message|>{VERDICT}",
}


@pytest.mark.parametrize("reply", LOST)
def test_a_schema_that_held_its_reasoning_is_left_out_of_the_second_request(
    reply: str,
) -> None:
    def held(body: Body) -> list[Any]:
        return [LOST[reply] if "response_format" in body else VERDICT]

    with FakeServer(held) as server:
        assert ask("refusal", server, "I cannot.") == [FOUND]
    assert ["response_format" in body for body in server.requests] == [True, False]


@pytest.mark.parametrize("content", [VERDICT[:40], VERDICT + OTHER])
def test_what_is_not_its_one_final_verdict_is_none(content: str) -> None:
    reply = {"content": content, "reasoning": "x"}
    with FakeServer(lambda body: [reply]) as server:
        (found,) = ask("refusal", server, "I cannot.")
    assert found.in_words == Reason.UNPARSABLE_VERDICT
    assert len(server.requests) == 2
