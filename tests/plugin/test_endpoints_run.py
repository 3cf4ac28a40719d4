"""Whole gate runs on servers that others run: that fail, that lack things, that are far away."""

from __future__ import annotations

import json
import re
import ssl
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.fake_server import RESET, STALL, FakeServer, Fault
from tests.plugin.conftest import RunGate, requests, well_behaved
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
INVALID_GATE = """
[smoke_safe]
rejection_rate = { max = 0.10 }
invalid_rate = { max = 0.02 }
"""


def summary(project: pytest.Pytester) -> dict[str, Any]:
    """The newest run's."""
    folders = sorted(project.path.glob(".refusal-checks/runs/*"))
    found: dict[str, Any] = json.loads((folders[-1] / "summary.json").read_text())
    return found


def shown(result: pytest.RunResult) -> str:
    """What the terminal said, in one line however it was wrapped."""
    return " ".join(result.stdout.str().split())


@pytest.fixture
def quick(project: pytest.Pytester) -> None:
    """Retries that wait for little, and an invalid gate."""
    project.makeconftest(
        """
        from refusal_checks.models.client import errors
        errors.WAIT_INITIAL = errors.WAIT_MAX = 0.01
        pytest_plugins = ["refusal_checks.plugin"]
        """
    )
    (project.path / "thresholds" / "default.toml").write_text(INVALID_GATE)


@pytest.mark.usefixtures("quick")
def test_answers_that_fail_in_every_way_are_counted_apart_and_asked_for_again(
    run_gate: RunGate, server: FakeServer, project: pytest.Pytester
) -> None:
    failing = dict(zip(PROMPTS, EVERY_WAY, strict=False))
    server.failing = failing
    result = run_gate("--request-timeout", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["invalid in smoke_safe: 16 engine error (of 160 answers)"])
    assert summary(project)["manifest"]["tokens"]["candidate"]["retries"] >= len(failing)

    server.failing = {}
    server.requests.clear()
    run_gate().assert_outcomes(passed=2)
    asked = Counter(body["messages"][-1]["content"] for body in server.asked(judge=False))
    assert asked == dict.fromkeys(failing, 1)
    assert len(server.asked(judge=True)) == 2 * len(failing)


@pytest.mark.usefixtures("quick")
def test_verdicts_that_fail_are_counted_apart_and_asked_for_again(
    run_gate: RunGate, server: FakeServer
) -> None:
    server.failing = {"#judge": 503}
    result = run_gate()
    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines(["invalid in smoke_safe: 160 judge error (of 160 answers)"])

    server.failing = {}
    server.requests.clear()
    run_gate().assert_outcomes(passed=2)
    assert server.asked(judge=False) == []
    assert len(server.asked(judge=True)) == 160


def test_the_cost_is_in_the_manifest_and_in_a_line(
    run_gate: RunGate, server: FakeServer, project: pytest.Pytester
) -> None:
    server.cached = 3
    result = run_gate(*SAFE)
    found = summary(project)["manifest"]["tokens"]
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
    result = run_gate(*SAFE)
    result.stdout.no_fnmatch_line("tokens: *")
    assert summary(project)["manifest"]["tokens"]["judge"]["requests"] == 0


def test_what_a_server_lacks_is_done_without_said_once_and_recorded(
    project: pytest.Pytester,
) -> None:
    lacking = {"refuses": ["top_k", "n"], "ignores": ["logprobs", "response_format"]}
    with FakeServer(well_behaved_without_schemas, **lacking) as server:  # type: ignore[arg-type]
        model = f"{server.url}#fake"
        models = ("--candidate", model, "--judge", model, "--samples", "3")
        result = project.runpytest_subprocess(*models, *SAFE, "-v")
        result.assert_outcomes(passed=1)
        for words in ("one answer per request", "no log-", "top_k is refused"):
            assert shown(result).count(f"note: candidate {model}: {words}") == 1
        assert shown(result).count("no structured outputs") == 1
        assert len(server.requests) == 80 * 3 + 80 * 3
        assert all("response_format" not in body for body in server.requests)
        project.runpytest_subprocess(*models, *SAFE).assert_outcomes(passed=1)
        assert len(server.requests) == 80 * 3 + 80 * 3
    found = summary(project)["manifest"]["capabilities"]
    assert found["candidate"][model] == {
        "n": "refused",
        "logprobs": "ignored",
        "structured_outputs": "ignored",
        "seed": "yes",
        "top_k": "refused",
    }
    assert found["judge"][model] == found["candidate"][model]


def well_behaved_without_schemas(body: dict[str, Any]) -> list[str]:
    """Judges what looks like a judge's prompt."""
    is_judge = len(body["messages"]) > 1
    return well_behaved({**body, "response_format": {}} if is_judge else body)


def test_a_server_is_asked_no_faster_than_allowed(
    run_gate: RunGate, server: FakeServer, project: pytest.Pytester
) -> None:
    server.delay = 0.01
    limits = ("--candidate-concurrency", "3", "--judge-concurrency", "2")
    run_gate(*SAFE, "--candidate-rpm", "6000", *limits).assert_outcomes(passed=1)
    assert 2 <= server.most_at_once <= 5


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--candidate-rpm", "0"), "candidate_rpm = 0.0"),
        (("--judge-rpm", "inf"), "judge_rpm = inf"),
        (("--judge-concurrency", "0"), "judge_concurrency = 0"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(
    run_gate: RunGate, option: tuple[str, str], words: str
) -> None:
    result = run_gate(*option)
    assert result.ret == 4
    assert words in result.stderr.str()


def test_a_server_with_a_certificate_of_one_s_own_authority(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    path = Path(project.path) / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    with FakeServer(well_behaved, ssl=context, api_key="secret") as server:
        models = ("--candidate", server.url, "--judge", server.url, "--samples", "1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        result = project.runpytest_subprocess(*models, *SAFE)
        assert result.ret == 4
        assert "certificate verify failed" in result.stderr.str()
        assert "SSL_CERT_FILE" in result.stderr.str()
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        project.runpytest_subprocess(*models, *SAFE).assert_outcomes(passed=1)


def test_a_server_behind_a_proxy(
    project: pytest.Pytester, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://model.example/v1"
    with TinyProxy(server.port) as relay:
        monkeypatch.setenv("HTTP_PROXY", relay.url)
        models = ("--candidate", url, "--judge", url, "--samples", "1")
        project.runpytest_subprocess(*models, *SAFE).assert_outcomes(passed=1)
    assert all(f" {url}/" in line for line in relay.asked)
    assert len(server.requests) == 160
