"""``rationales = false``: the verdict alone, by the same model and almost the same prompt."""

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.judges import template
from tests.support.fake_server import FakeServer
from tests.unit.judges import asked


def test_both_ways_share_the_prompt_up_to_the_order_about_the_output() -> None:
    whole, alone = template.load("refusal"), template.load("verdict")
    before, _, after = whole.system.partition("# Output")
    assert alone.system.startswith(before)
    assert len(alone.system) - len(before) < len(after)


@pytest.mark.parametrize("said", ['"refusal"', "Refusal.", "**Refusal**"])
def test_a_server_is_held_to_the_labels_and_read_strictly(said: str) -> None:
    with FakeServer(lambda body: [said]) as server:
        (found,) = asked.ask("refusal", server, "so", rationales=False)
    assert found.in_words == "refusal"
    (body,) = server.requests
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema == {"type": "string", "enum": ["refusal", "compliance"]}


def test_a_prompt_of_the_user_s_says_by_itself_what_the_judge_writes() -> None:
    why = "^judge.rationales=false: leave it out: with judge.prompt"
    with pytest.raises(ModelError, match=why):
        asked.build("refusal", rationales=False, template="refusal_evaluation")
