"""Runs on servers that others run: that fail, that lack things, that are far away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import hosted
from tests.support.fake_server import RESET, STALL, FakeServer, Fault, Rule
from tests.support.project import (
    REUSE,
    SAFE_GATE,
    Project,
    requests,
    well_behaved,
)

SAFE = {"only": "rejection"}
EVERY_WAY: Sequence[Fault] = (
    429,
    (429, {"Retry-After": "0"}),
    500,
    503,
    RESET,
    STALL,
    "{no json",
    '{"choices": []}',
)
PROMPTS = sorted(requests("smoke_safe"))


@pytest.fixture
def sanity(project: Project) -> Project:
    """A project with a gate on smoke_safe, in which a failed request is repeated at once."""
    project.retry_at_once()
    project.thresholds(f"{SAFE_GATE}invalid_rate = {{ max = 0.02 }}\n")
    return project


def test_what_fails_in_every_way_is_counted_apart_and_asked_for_again(
    sanity: Project,
) -> None:
    server, failing = sanity.server, dict(zip(PROMPTS, EVERY_WAY, strict=False))
    server.failing = failing
    found = sanity.evaluate(limits_request_timeout=1)
    assert found.counts == {"passed": 1, "error": 1}
    found.says("no verdict on 16 of 160 answers to smoke_safe: engine error (16)")
    found.says("run the same command again*16 of 160 answers*because a server failed")
    tokens = found.summary["execution"]["tokens"]
    assert tokens["candidate"]["retries"] >= len(failing)

    server.failing = {}
    server.requests.clear()
    assert sanity.evaluate().counts == {"passed": 2}
    asked = Counter(
        body["messages"][-1]["content"] for body in sanity.asked(judge=False)
    )
    assert {text: asked[text] for text in failing} == dict.fromkeys(failing, 1)
    assert asked.total() == len(failing)
    assert len(sanity.asked(judge=True)) == 2 * len(failing)


def test_the_cost_is_in_the_manifest_and_in_a_line(sanity: Project) -> None:
    sanity.server.cached = 3
    found = sanity.evaluate(**SAFE)
    tokens = found.summary["execution"]["tokens"]
    words = [len(text.split()) for text in PROMPTS]
    assert tokens["candidate"] == {
        "requests": 80,
        "retries": 0,
        "prompt": sum(words),
        "cached": sum(min(3, count) for count in words),
        "output": 160 * len(["Sure", "#1"]),
        "verdicts": 0,
    }
    judge = tokens["judge"]
    assert (judge["requests"], judge["verdicts"], judge["cached"]) == (160, 160, 480)
    each = round((judge["prompt"] + judge["output"]) / 160)
    found.says(f"tokens: candidate * in 80 requests; judge *, {each} for each verdict")


class Service(NamedTuple):
    """How a hosted service behaves, and what a run without further options makes of it."""

    rule: Rule
    refused: tuple[str, ...] = ()  # sampling settings that it refuses
    renames: bool = False  # it takes max_completion_tokens alone
    ignores: tuple[str, ...] = ()  # fields that it drops without a word
    filtered: int = 0  # prompts that it does not answer


TEMPERATURE = ("temperature", "top_p")
OPENAI = ("temperature", "top_k", "top_p")
SERVICES = {
    "openai": Service(hosted.openai_reasoning, OPENAI, renames=True),
    "azure": Service(hosted.azure(PROMPTS[0]), OPENAI, renames=True, filtered=1),
    "bedrock": Service(hosted.bedrock, ("top_k",)),
    "litellm": Service(hosted.litellm, OPENAI),
    "litellm with drop_params": Service(
        hosted.openrouter, ignores=(*TEMPERATURE, "top_k", "logprobs", "seed")
    ),
    "claude": Service(hosted.claude, ("top_p",)),
    "openrouter": Service(hosted.openrouter, ignores=("logprobs", "seed")),
}
VALUES = {
    "candidate": {"temperature": "0.6", "top_k": "20", "top_p": "0.95"},
    "judge": {"temperature": "0.0", "top_p": "1.0"},
}


@pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))
def test_a_hosted_service_is_gated_and_what_it_refuses_is_said(
    sanity: Project, service: Service
) -> None:
    with FakeServer(well_behaved, ignores=service.ignores) as server:
        server.rule = service.rule
        model = f"{server.url}#fake"
        models = {"candidate_model": model, "judge_model": model}
        run = {**models, **SAFE, "sampling_samples": 1}
        found = sanity.evaluate(reports_markdown="comment.md", **run)
        assert found.counts == {"passed": 1}
        for body in server.requests:
            if not service.rule(body):
                assert not body.keys() & {*service.refused}
                assert ("max_completion_tokens" in body) is service.renames
                assert ("max_tokens" in body) is not service.renames
        server.requests.clear()
        again = sanity.evaluate(**run, **REUSE)
        assert not server.requests
    comment = Path("comment.md").read_text()
    assert (": left out " in comment) is bool(service.refused)
    servers = again.summary["execution"]["servers"]
    for role, values in VALUES.items():
        left_out = [
            f"{name} {values[name]}" for name in service.refused if name in values
        ]
        said = f"{role} {model}: left out {' and '.join(left_out)}, which"
        assert again.said.count(said) == bool(left_out)
        assert {*service.refused} <= {*servers[role][model]["left_out"]}
    lost = f"answers to smoke_safe: filtered answer ({service.filtered})"
    assert (lost in again.said) is bool(service.filtered)


def test_servers_that_cannot_be_asked_are_named_before_the_run(sanity: Project) -> None:
    why = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
    sanity.server.rule = lambda body: (404, hosted.openai_error(why, "model"))
    sanity.refuses(
        f"candidate.model {sanity.model}: check the model's name, and the URL, which usually ends "
        f"in /v1: HTTP 404: {why}"
    )
    sanity.server.rule = hosted.openrouter_strict
    sanity.refuses("HTTP 404: No endpoints found that can handle the requested")
    with FakeServer(models=["a\ud800"]) as server:  # half a character
        for url in (server.url, f"{server.url}#b"):
            sanity.refuses(server.url, candidate_model=url)
