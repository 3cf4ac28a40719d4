"""Reasoning models, system prompts and stop texts, from the command line to the verdict."""

import json

import pytest

from tests.fake_server import Answer, Body
from tests.plugin.conftest import Project, well_behaved

GATES = """
[smoke_safe]
rejection_rate = { max = 0.10 }
invalid_rate = { max = 0.02 }
"""


def thinking(said: str | Body) -> Answer:
    """Thinks of refusing, and refuses nothing."""
    return lambda body: (
        well_behaved(body) if "response_format" in body else [said] * body["n"]
    )


MARKED = thinking("I cannot say. Final answer: Sure")
MARKER = ("--set", 'candidate.reasoning_end="Final answer:"')
PARSED = thinking({"reasoning": "I cannot say.", "content": "Sure"})
ENDLESS = thinking({"reasoning": "I cannot say.", "content": None})


@pytest.fixture
def project(project: Project) -> Project:
    project.thresholds(GATES)
    return project


@pytest.mark.parametrize(("answer", "args"), [(MARKED, MARKER), (PARSED, ())])
def test_the_answer_alone_is_judged(
    project: Project, answer: Answer, args: tuple[str, ...]
) -> None:
    project.server.answer = answer
    project.gate(*args).assert_outcomes(passed=2)
    judged = [body["messages"][-1]["content"] for body in project.asked(judge=True)]
    assert not [text for text in judged if "cannot" in text]


def test_the_judges_answers_have_their_own_marker(project: Project) -> None:
    project.server.answer = MARKED
    result = project.gate(*MARKER, "--set", "judge.reasoning_end=</reason>")
    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines(["*invalid in smoke_safe: 160 unfinished verdict*"])


def test_reasoning_without_an_end_is_invalid_and_counted_apart(
    project: Project,
) -> None:
    project.server.answer = ENDLESS
    result = project.gate()
    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines(["*invalid in smoke_safe: 160 unclosed reasoning*"])
    assert not project.asked(judge=True)
    figures = project.summary()["benchmarks"]["smoke_safe"]["figures"]
    assert figures.keys() == {"invalid_rate"}


def test_system_prompt_and_stop_texts_reach_the_server_and_the_manifest(
    project: Project,
) -> None:
    text = '[sampling]\nstop = ["FILE"]\nsystem_prompt = "Be brief."\n'
    project.thresholds(text + GATES)
    project.gate().assert_outcomes(passed=2)
    (body, *_) = project.asked(judge=False)
    assert (body["stop"], body["messages"][0]["content"]) == (["FILE"], "Be brief.")
    project.server.requests.clear()
    project.write("system.txt", "Be kind.\n")
    project.gate(
        "--set",
        "sampling.system_prompt_file=system.txt",
        "--set",
        'sampling.stop=["END","###"]',
    )
    for body in project.asked(judge=False):
        assert body["messages"][0] == {"role": "system", "content": "Be kind."}
        assert body["stop"] == ["END", "###"]
    for body in project.asked(judge=True):
        assert "Be kind." not in json.dumps(body["messages"])
        assert "stop" not in body
    sampling = project.summary()["manifest"]["sampling"]
    assert (sampling["system_prompt"], sampling["stop"]) == ("Be kind.", ["END", "###"])


def test_answers_are_bounded_by_the_context_and_a_note_names_what_is_too_small(
    project: Project,
) -> None:
    """A server that tells its context of 300 tokens, and a model that thinks until it is full."""
    server = project.server
    server.answer = thinking({"reasoning": "hm " * 299, "content": None})
    server.max_model_len, server.finish_reason = 300, "length"
    server.refusal = lambda body: "max_tokens: too large" * (body["max_tokens"] > 300)
    result = project.gate("-k", "smoke_safe-rejection")
    result.assert_outcomes(errors=1)
    assert {body["max_tokens"] for body in server.requests} == {300}
    result.stdout.fnmatch_lines(["*invalid in smoke_safe: 160 unclosed reasoning*"])
    (note,) = (
        line for line in project.summary()["notes"] if line.startswith("smoke_safe: ")
    )
    assert "give the candidate more context" in note
    assert "160 answers ended in the reasoning" in note
