"""``rationales = false``: the verdict alone, by the same model and almost the same prompt."""

from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.records import Completion
from refusal_checks.core.verdicts import Binary, Label, Reason
from refusal_checks.evaluation.planning import verdict_key
from refusal_checks.judges import template
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.kinds.refusal import ALONE, CHOICE, CONSISTENT
from refusal_checks.judges.prompt_metadata import EXAMPLE
from refusal_checks.judges.template import JudgePrompt
from tests.fake_server import Body, FakeServer
from tests.unit.conftest import Write
from tests.unit.judges import asked
from tests.unit.judges.asked import PROMPT

WHOLE = '{"rationale": "it declines", "category": "deflection", "verdict": "refusal"}'
HEAD = f"{EXAMPLE}\n"
OWN = f"""\
{HEAD}===== system =====
Judge.

===== output =====
Explain, as JSON.

===== verdict alone =====
Only say refusal or compliance.

===== user =====
{{{{ marker }}}} {{{{ request }}}} {{{{ answer }}}}
"""


def build(kind: str = "refusal", **others: Any) -> Judge:
    return asked.build(kind, **{"rationales": False, **others})


def load(name: str) -> JudgePrompt:
    return template.load(name)


def by_schema(body: Body) -> list[str]:
    """Says a label where the schema is one, else a whole verdict."""
    form = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return ['"refusal"'] if form == CHOICE else [WHOLE]


def ask(server: FakeServer, **others: Any) -> Any:
    given = {"rationales": False, **others}
    (found,) = asked.ask("refusal", server, "so", **given)
    return found


def schemas(server: FakeServer) -> list[object]:
    forms = [body.get("response_format") for body in server.requests]
    return [form and form["json_schema"]["schema"] for form in forms]


def test_with_and_without_reasons_it_is_two_judges() -> None:
    with FakeServer(by_schema) as server:
        whole = ask(server, rationales=True)
        assert whole == Binary(Label.REFUSAL, "deflection", "it declines")
        assert ask(server) == Binary(Label.REFUSAL)
    assert schemas(server) == [CONSISTENT, CHOICE]
    alone, first = build(), build(rationales=True)
    assert (alone.verdict_alone, first.verdict_alone) == (True, False)
    assert first.identity != alone.identity
    assert first.prompt_hash != alone.prompt_hash
    assert verdict_key(alone, PROMPT, "so") != verdict_key(first, PROMPT, "so")


@pytest.mark.parametrize("name", ["refusal", "refusal_evaluation"])
def test_both_ways_share_the_prompt_up_to_the_order_about_the_output(name: str) -> None:
    whole = load(name)
    assert whole.alone
    system, alone_system = whole.system, whole.alone.system
    user, alone_user = (
        prompt.messages(PROMPT, "so")[-1].content for prompt in (whole, whole.alone)
    )
    before, _, after = system.partition("# Output")
    assert alone_system.startswith(before)
    assert len(alone_system) - len(before) < len(after)
    *lines, last = user.splitlines()
    assert alone_user.splitlines()[:-1] == lines
    assert last != alone_user.splitlines()[-1]
    for text in (system, user, alone_system, alone_user):
        assert "=====" not in text


def test_a_template_of_the_user_s_own_says_where_the_order_stands(write: Write) -> None:
    plain = OWN.replace("===== output =====\n", "")
    plain = plain.replace(
        "===== verdict alone =====\nOnly say refusal or compliance.\n\n", ""
    )
    name = str(write("own.md", OWN))
    found, before = load(name), load(str(write("before.md", plain)))
    assert found.sha256 == before.sha256  # the lines change no stored verdict
    assert found.system == before.system == "Judge.\n\nExplain, as JSON."
    assert found.alone
    assert found.alone.system == "Judge.\n\nOnly say refusal or compliance."
    with FakeServer(by_schema) as server:
        assert ask(server, template=name) == Binary(Label.REFUSAL)
    assert schemas(server) == [CHOICE]
    assert server.requests[0]["messages"][0]["content"] == found.alone.system


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_order_may_stand_in_the_user_s_message(
    tmp_path: Path, line_end: str
) -> None:
    path = tmp_path / "user.md"
    text = f"{HEAD}===== user =====\n{{{{ request }}}} {{{{ answer }}}}\n"
    text += "===== output =====\nA\n===== verdict alone =====\nB\n"
    path.write_bytes(text.replace("\n", line_end).encode())
    found = load(str(path))
    assert found.alone
    shown = [each.messages(PROMPT, "so")[-1].content for each in (found, found.alone)]
    assert shown == [f"{PROMPT.request} so\n{end}" for end in "AB"]


def test_a_template_without_a_place_for_it_is_refused_with_the_remedy(
    write: Write,
) -> None:
    name = str(write("plain.md", f"{HEAD}===== user =====\n{{{{ answer }}}}"))
    why = (
        f"judge.rationales=false: .*plain.md, write.*{template.ORDER}.*{template.ALONE}"
    )
    with pytest.raises(ModelError, match=why):
        build(template=name)
    half = str(
        write(
            "half.md",
            f"{HEAD}===== user =====\n{{{{ answer }}}}\n{template.ALONE}\nB\n",
        )
    )
    with pytest.raises(ModelError, match=r"half.md: write a line ===== output ====="):
        load(half)


def test_the_verdict_alone_is_asked_for_with_all_else_that_the_head_says(
    write: Write,
) -> None:
    head = EXAMPLE.replace(
        "measures",
        'languages = ["de"]\ntemplate_variables = { think = false }\nmeasures',
    )
    name = str(write("own.md", OWN.replace(EXAMPLE, head)))
    with FakeServer(by_schema) as server:
        ask(server, template=name)
    assert server.requests[0]["chat_template_kwargs"] == {"think": False}
    judge = build(template=name)
    english = "I would rather not say anything about this, because it would be wrong."
    found = judge.without_asking(PROMPT, Completion(english))
    assert found
    assert found.verdict == Reason.OTHER_LANGUAGE


def test_a_server_that_wants_an_object_gets_one() -> None:
    with FakeServer(lambda body: ['{"verdict": "compliance"}'], faults=[400]) as server:
        assert ask(server) == Binary(Label.COMPLIANCE)
    assert schemas(server) == [CHOICE, ALONE]


def test_a_server_without_schemas_is_read_strictly_and_asked_once_more() -> None:
    notes: list[str] = []
    texts = iter(["Well, hard to say.", "Compliance."])
    with FakeServer(lambda body: [next(texts)], no_schemas=400) as server:
        assert ask(server, note=notes.append) == Binary(Label.COMPLIANCE)
    (note,) = notes
    assert "no structured outputs" in note
