"""Published judges are asked as their model cards say and read strictly; their names suffice."""

from fnmatch import fnmatchcase
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import Invalid
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.judges import template
from tests.support.cases import cases_of
from tests.support.fake_server import Body, FakeServer
from tests.unit.judges import asked

GUARDS = cases_of(__file__)
EXCHANGE = Prompt(
    "p1",
    (
        Message("user", "First?"),
        Message("assistant", "A reply."),
        Message("user", "A request?"),
    ),
)


def ask(case: dict[str, Any], output: Any) -> tuple[Any, Body]:
    """The verdict of a guard that says this, and the first request as its server saw it."""
    if case.get("reads") == "probability":
        server = FakeServer(tokens=lambda body: output)
    else:
        server = FakeServer(lambda body: [output])
    with server:
        (found,) = asked.ask(
            "refusal",
            server,
            "An answer.",
            prompt=EXCHANGE,
            name=case["model"],
            template=case.get("prompt"),
        )
    return found, server.requests[0]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_is_sent_its_own_form_and_its_published_output_is_read(
    guard: str,
) -> None:
    case = GUARDS[guard]
    for output, verdict in case["says"]:
        found, body = ask(case, output)
        assert found.in_words == verdict, output
        sent = [f"{turn['role']}: {turn['content']}" for turn in body["messages"]]
        assert len(sent) == len(case["sent"])
        for shown, expected in zip(sent, case["sent"], strict=True):
            assert fnmatchcase(shown, expected), shown
        variables = case.get("variables")
        if variables:
            assert body["chat_template_kwargs"] == variables


@pytest.mark.parametrize("guard", GUARDS)
def test_a_broken_output_of_a_guard_gives_no_verdict(guard: str) -> None:
    case = GUARDS[guard]
    assert len(case["broken"]) >= 5
    for output in case["broken"]:
        found, _ = ask(case, output)
        assert isinstance(found, Invalid), output


def test_each_shipped_guard_says_where_its_form_is_published_and_is_in_the_table() -> (
    None
):
    shipped = {
        name for name, metadata in template.list_packaged().items() if metadata.models
    }
    assert shipped | {"refusal_evaluation"} == set(GUARDS)
    for name in shipped:
        metadata = template.list_packaged()[name]
        assert metadata.source
        assert metadata.version
        assert template.find_packaged(GUARDS[name]["model"]) == name


@pytest.mark.parametrize(
    "name",
    [
        "org/SomeGuard-7B",
        "Qwen/Qwen3Guard-Stream-4B",
        "/models/my-shield",
    ],
)
def test_an_unknown_guard_is_asked_for_a_prompt_in_its_form(name: str) -> None:
    with pytest.raises(
        ModelError,
        match=r"--set judge.prompt=FILE\.md: it is a guard, (.|\n)*labels = ",
    ):
        asked.build("refusal", name=name)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("/data/wildguard/exp1/chat-judge", None),
        ("/data/judges/wildguard/", "wildguard"),
        ("http://host:8000/v1#org/wildguard", "wildguard"),
        ("/hf/hub/models--meta-llama--Llama-Guard-3-8B/snapshots/0f3c", "llama_guard"),
        ("openai/gpt-oss-20b", None),
        ("openai/gpt-oss-safeguard-120b", "gpt_oss_safeguard"),
    ],
)
def test_a_model_s_own_name_picks_its_prompt_wherever_it_lies(
    name: str, prompt: str | None
) -> None:
    assert template.find_packaged(name) == prompt
