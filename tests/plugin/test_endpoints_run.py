"""Whole gate runs on servers that others run: that fail, that lack things, that are far away."""

import re
import ssl
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import trustme

from tests import hosted
from tests.fake_server import RESET, STALL, Body, FakeServer, Fault, Rule
from tests.plugin.conftest import AGAIN, Project, refused, requests, shown, well_behaved
from tests.tiny_proxy import TinyProxy

SAFE = ("-k", "smoke_safe")
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


QUICK = """
from refusal_checks.models.client import server_errors
server_errors.WAIT_INITIAL = server_errors.WAIT_MAX = 0.01
"""
"""A conftest by which retries wait for little."""


def test_what_fails_in_every_way_is_counted_apart_and_asked_for_again(
    project: Project,
) -> None:
    project.conftest(QUICK)
    rates = "rejection_rate = { max = 0.10 }\ninvalid_rate = { max = 0.02 }\n"
    project.thresholds(f"[smoke_safe]\n{rates}")
    server, failing = project.server, dict(zip(PROMPTS, EVERY_WAY, strict=False))
    server.failing = failing
    result = project.gate("--set", "limits.request_timeout=2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["invalid in smoke_safe: 16 engine error (of 160 answers)"]
    )
    tokens = project.summary()["manifest"]["tokens"]
    assert tokens["candidate"]["retries"] >= len(failing)

    server.failing = {}
    server.requests.clear()
    project.gate().assert_outcomes(passed=2)
    asked = Counter(
        body["messages"][-1]["content"] for body in project.asked(judge=False)
    )
    assert {text: asked[text] for text in failing} == dict.fromkeys(failing, 1)
    assert asked.total() == len(failing) + AGAIN
    assert len(project.asked(judge=True)) == 2 * len(failing) + AGAIN


def test_verdicts_that_failed_are_asked_for_again(project: Project) -> None:
    project.conftest(QUICK)
    project.server.failing = {"#judge": 503}
    result = project.gate(*SAFE)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["invalid in smoke_safe: 160 judge error (of 160 answers)"]
    )
    project.server.failing = {}
    project.server.requests.clear()
    project.gate(*SAFE).assert_outcomes(passed=1)
    assert len(project.asked(judge=False)) == AGAIN
    assert len(project.asked(judge=True)) == 160


def test_the_cost_is_in_the_manifest_and_in_a_line(project: Project) -> None:
    project.server.cached = 3
    result = project.gate(*SAFE)
    found = project.summary()["manifest"]["tokens"]
    assert found["candidate"] == {
        "requests": 80,
        "retries": 0,
        "prompt": sum(len(text.split()) for text in PROMPTS),
        "cached": sum(min(3, len(text.split())) for text in PROMPTS),
        "output": 160 * len(["Sure", "#1"]),
        "verdicts": 0,
    }
    judged = found["judge"]
    assert (judged["requests"], judged["verdicts"], judged["cached"]) == (160, 160, 480)
    per_verdict = rf"{round(judged['prompt'] / 160)} prompt \(3 cached\), \d+ output"
    line = rf"tokens: candidate .* in 80 requests; judge .* per verdict: {per_verdict}"
    assert re.search(line, shown(result))
    result = project.gate(*SAFE)
    result.stdout.fnmatch_lines(["tokens: candidate * in 20 requests; judge *"])
    assert project.summary()["manifest"]["tokens"]["judge"]["requests"] == AGAIN


def test_what_a_server_lacks_is_done_without_said_once_and_recorded(
    project: Project,
) -> None:
    def answer(body: Body) -> list[str]:
        """Judges what looks like a judge's prompt, as no schema says so."""
        is_judge = len(body["messages"]) > 1
        return well_behaved({**body, "response_format": {}} if is_judge else body)

    ignores = ["logprobs", "response_format"]
    with FakeServer(answer, refuses=["top_k", "n"], ignores=ignores) as server:
        model = f"{server.url}#fake"
        models = ("--candidate", model, "--judge", model, "--samples", "3")
        result = project.run(*models, *SAFE, "-v")
        result.assert_outcomes(passed=1)
        for words in ("one answer per request", "no log-", "top_k is refused"):
            assert shown(result).count(f"note: candidate {model}: {words}") == 1
        assert shown(result).count("no structured outputs") == 1
        assert len(server.requests) == 80 * 3 + 80 * 3
        assert all("response_format" not in body for body in server.requests)
        project.run(*models, *SAFE).assert_outcomes(passed=1)
        assert len(server.requests) == 80 * 3 + 80 * 3 + 3 * AGAIN + AGAIN
    found = project.summary()["manifest"]["capabilities"]
    assert found["candidate"][model] == {
        "n": "refused",
        "logprobs": "ignored",
        "structured_outputs": "ignored",
        "seed": "yes",
        "top_k": "refused",
    }
    assert found["judge"][model] == found["candidate"][model]


def test_a_server_is_asked_no_faster_than_allowed(project: Project) -> None:
    project.server.delay = 0.01
    pace = ("--set", "candidate.requests_per_minute=6000")
    limits = ("--set", "candidate.concurrency=3", "--set", "judge.concurrency=2")
    project.gate(*SAFE, *pace, *limits).assert_outcomes(passed=1)
    assert 2 <= project.server.most_at_once <= 5
    refused(
        project.gate("--set", "judge.requests_per_minute=inf"),
        "judge*requests_per_minute*inf",
    )
    refused(project.gate("--set", "judge.concurrency=0"), "judge*concurrency*0")


def test_a_server_with_a_certificate_of_one_s_own_authority(project: Project) -> None:
    authority, context = (
        trustme.CA(),
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
    )
    authority.issue_cert("127.0.0.1").configure_cert(context)
    path = project.path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    with FakeServer(well_behaved, ssl=context, api_key="secret") as server:
        models = ("--candidate", server.url, "--judge", server.url, "--samples", "1")
        project.setenv("OPENAI_API_KEY", "secret")
        refused(project.run(*models, *SAFE), "certificate verify failed*SSL_CERT_FILE")
        project.setenv("SSL_CERT_FILE", str(path))
        project.run(*models, *SAFE).assert_outcomes(passed=1)


def test_a_server_behind_a_proxy(project: Project) -> None:
    url = "http://model.example/v1"
    with TinyProxy(project.server.port) as relay:
        project.setenv("HTTP_PROXY", relay.url)
        models = ("--candidate", url, "--judge", url, "--samples", "1")
        project.run(*models, *SAFE).assert_outcomes(passed=1)
    assert all(f" {url}/" in line for line in relay.asked)
    assert len(project.server.requests) == 160


class Service(NamedTuple):
    """How a hosted service behaves, and what a run without further options makes of it."""

    rule: Rule
    refused: tuple[str, ...] = ()  # sampling settings that it refuses
    renames: bool = False  # it takes max_completion_tokens alone
    ignores: tuple[str, ...] = ()  # fields that it drops without a word
    filtered: int = 0  # prompts that it does not answer


SERVICES = {
    "openai": Service(hosted.openai_reasoning, ("temperature", "top_p"), renames=True),
    "azure": Service(
        hosted.azure(PROMPTS[0]), ("temperature", "top_p"), renames=True, filtered=1
    ),
    "bedrock": Service(hosted.bedrock),
    "litellm": Service(hosted.litellm, ("temperature", "top_p")),
    "litellm with drop_params": Service(
        hosted.openrouter, ignores=("temperature", "top_p", "top_k", "logprobs", "seed")
    ),
    "claude": Service(hosted.claude, ("top_p",)),
    "openrouter": Service(hosted.openrouter, ignores=("logprobs", "seed")),
    "openrouter, all parameters": Service(
        hosted.openrouter_strict, ("temperature", "top_p")
    ),
}
VALUES = {
    "candidate": {"temperature": 0.6, "top_p": 0.95},
    "judge": {"temperature": 0.0, "top_p": 1.0},
}


@pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))
def test_a_hosted_service_is_gated_and_what_it_refuses_is_said(
    project: Project, service: Service
) -> None:
    with FakeServer(well_behaved, ignores=service.ignores) as server:
        server.rule = service.rule
        model = f"{server.url}#fake"
        models = ("--candidate", model, "--judge", model, "--samples", "2")
        files = ("--junitxml=gates.xml", "--pr-comment=comment.md")
        result = project.run(*models, *SAFE, *files)
        result.assert_outcomes(passed=1)
        assert result.ret == 0
        sent = [body for body in server.requests if not service.rule(body)]
        for body in sent:
            assert not body.keys() & {*service.refused}
            assert ("max_completion_tokens" in body) is service.renames
            assert ("max_tokens" in body) is not service.renames
        server.requests.clear()
        project.run(*models, *SAFE).assert_outcomes(passed=1)
        found_again = len(server.requests) - service.filtered
        assert found_again == 2 * AGAIN, "answers and verdicts are"
    published = [
        (project.path / name).read_text() for name in ("gates.xml", "comment.md")
    ]
    assert [" left out, because " in text for text in published] == [
        bool(service.refused)
    ] * 2
    manifest = project.summary()["manifest"]
    for role, values in VALUES.items():
        settings = " and ".join(f"{name} {values[name]}" for name in service.refused)
        said = f"{role} {model}: {settings} {'was' if len(service.refused) == 1 else 'were'} left"
        assert shown(result).count(said) == bool(service.refused), said
        known = manifest["capabilities"][role][model]
        assert {name for name, word in known.items() if word == "left out"} == {
            *service.refused
        }
        assert known.get("max_tokens") == ("refused" if service.renames else None)
    lost = (
        f"invalid in smoke_safe: {2 * service.filtered} engine error (of 160 answers)"
    )
    assert shown(result).count(lost) == bool(service.filtered)


def test_answers_at_a_server_s_own_temperature_are_not_those_at_the_run_s(
    project: Project,
) -> None:
    with FakeServer(well_behaved) as server:
        model = f"{server.url}#fake"
        models = ("--candidate", model, "--judge", "keyword", "--samples", "2")
        server.rule = hosted.openai_reasoning
        project.run(*models, *SAFE).assert_outcomes(passed=1)
        server.requests.clear()
        project.run(*models, *SAFE, "--temperature", "0.9").assert_outcomes(passed=1)
        assert len(server.requests) == AGAIN, "both are the server's own"
        server.rule = lambda body: None
        server.requests.clear()
        project.run(*models, *SAFE).assert_outcomes(passed=1)
        assert {body["temperature"] for body in server.requests} == {0.6}
        assert len(server.requests) == 80


def test_a_service_that_refuses_the_conversation_itself_is_told_before_the_run(
    project: Project,
) -> None:
    said = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
    project.server.rule = lambda body: (404, hosted.openai_error(said, "model"))
    refused(
        project.gate(*SAFE),
        f"--candidate {project.model}: the server gives no chat completion: "
        f"{project.server.url}: HTTP 404: {said}; name a model for chat completions",
    )
