"""``rationales = false``: the verdict alone, by the same model and almost the same prompt."""

from collections.abc import Callable
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.judges import template
from refusal_checks.run.plan import verdict_key
from tests.support.fake_server import Body, FakeServer
from tests.unit.judges import asked
from tests.unit.judges.asked import PROMPT


def saying(*texts: str) -> Callable[[Body], list[str]]:
    left = iter(texts)
    return lambda body: [next(left)]


def ask(server: FakeServer, **others: Any) -> Any:
    (found,) = asked.ask("refusal", server, "so", rationales=False, **others)
    return found


def test_with_and_without_reasons_it_is_two_judges() -> None:
    alone, first = asked.build("refusal", rationales=False), asked.build("refusal")
    assert first.identity != alone.identity
    assert first.prompt_hash != alone.prompt_hash
    assert verdict_key(alone, PROMPT, "so") != verdict_key(first, PROMPT, "so")


def test_both_ways_share_the_prompt_up_to_the_order_about_the_output() -> None:
    whole, alone = template.load("refusal"), template.load("verdict")
    before, _, after = whole.system.partition("# Output")
    assert alone.system.startswith(before)
    assert len(alone.system) - len(before) < len(after)
    user, alone_user = (
        prompt.messages(PROMPT, "so")[-1].content for prompt in (whole, alone)
    )
    assert alone_user.splitlines()[:-1] == user.splitlines()[:-1]
    assert alone_user.splitlines()[-1] != user.splitlines()[-1]


@pytest.mark.parametrize("said", ['"refusal"', "Refusal.", "**Refusal**"])
def test_a_server_is_held_to_the_labels_and_read_strictly(said: str) -> None:
    with FakeServer(saying(said)) as server:
        assert ask(server).in_words == "refusal"
    (body,) = server.requests
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema == {"type": "string", "enum": ["refusal", "compliance"]}


def test_a_server_without_schemas_is_asked_once_more() -> None:
    notes: list[str] = []
    with FakeServer(
        saying("Well, hard to say.", "Compliance."), no_schemas=400
    ) as server:
        assert ask(server, note=notes.append).in_words == "compliance"
    (note,) = notes
    assert "no structured outputs" in note


def test_a_prompt_of_the_user_s_says_by_itself_what_the_judge_writes() -> None:
    why = "^judge.rationales=false: leave it out: with judge.prompt"
    with pytest.raises(ModelError, match=why):
        asked.build("refusal", rationales=False, template="refusal_evaluation")
