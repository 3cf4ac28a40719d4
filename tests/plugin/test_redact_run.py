"""A redacted run: nothing that it writes or prints has a text of a prompt, answer or rationale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.reports.formats import discover as discover_formats
from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import RunGate

SECRETS = ("Gladly, the answer", "because it quotes", "You are a secret")


def telling(body: Body) -> list[str]:
    """Answers everything; judges with a reason, unreadably at times, and not twice the same."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        if "other:" in body["messages"][0]["content"] + text:
            text = "cannot"
        if "#1" in text:
            return ["no verdict, because it quotes Gladly, the answer"]
        verdict = ("direct_refusal", "refusal") if "cannot" in text else ("none", "compliance")
        form = '{"rationale": "because it quotes Gladly", "category": "%s", "verdict": "%s"}'
        return [form % verdict]
    return [f"Gladly, the answer #{body['seed'] + i}" for i in range(body["n"])]


def texts() -> set[str]:
    """What must not be seen: the secrets, and a part of every prompt."""
    names = ("smoke_unsafe", "smoke_safe")
    prompts = [p for name in names for p in load_prompts(discover()[name], None)]
    return {prompt.request[:40] for prompt in prompts} | set(SECRETS)


def leaks(text: str) -> set[str]:
    """The texts that are there, as they are or as JSON and XML write them."""
    escaped = json.dumps(text)
    return {found for found in texts() if found in text or found in escaped}


def written(folder: Path) -> str:
    """All files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def runs(project: pytest.Pytester) -> list[Path]:
    return sorted((project.path / ".refusal-checks" / "runs").iterdir())


@pytest.fixture
def everything(
    run_gate: RunGate, project: pytest.Pytester, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[str | Path, ...]:
    """The options of a run that shows all that can be shown, after one that is its baseline."""
    run_gate()
    server.answer = telling
    judges = ("one", "two", "other")
    for judge in judges:
        template = f"{judge}: {{{{ request }}}} / {{{{ answer }}}} / {{{{ marker }}}}"
        (project.path / f"{judge}.md").write_text(template)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "step.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    files = {
        name: found for name, found in discover_formats().items() if not hasattr(found, "METAVAR")
    }
    reports = [f"{found.OPTION}={name}.out" for name, found in files.items() if found.OPTION]
    return (
        *("--baseline", runs(project)[0], "--allow-incomparable", "--seed", "9"),
        *("--judge", f"{server.url}#fake", "--judge", f"{server.url}#fake"),
        *(f"--judge-template={judge}.md" for judge in judges),
        *("--system-prompt", "You are a secret keeper"),
        *("--junitxml", "report.xml", "-rA", "-v", "--showlocals", *reports),
    )


def test_no_text_is_seen_anywhere(
    run_gate: RunGate,
    project: pytest.Pytester,
    everything: tuple[str | Path, ...],
) -> None:
    result = run_gate(*everything, "--redact", "-n2")
    assert result.ret == 1
    shown = result.stdout.str() + result.stderr.str()
    quoting = [project.path / name for name in ("report.xml", "step.md")]
    others = [*project.path.glob("*.out")]  # some of them quote nothing
    assert len(others) >= 3
    run_folder = written(runs(project)[-1])
    for text in (shown, run_folder, *(path.read_text() for path in (*quoting, *others))):
        assert not leaks(text)
    for text in (shown, run_folder, *(path.read_text() for path in quoting)):
        assert "[redacted: sha256" in text
    for part in ("smoke-unsafe-", "::error title=smoke_unsafe-rejection_rate::", "compliance"):
        assert part in shown


def test_the_same_run_without_it_shows_them(
    run_gate: RunGate, project: pytest.Pytester, everything: tuple[str | Path, ...]
) -> None:
    result = run_gate(*everything)
    assert leaks(result.stdout.str())
    assert len(leaks(written(runs(project)[-1]))) > 80
    assert "answer:    [redacted" not in result.stdout.str()


def test_the_variable_redacts_and_a_fresh_run_s_store_is_elsewhere(
    run_gate: RunGate, project: pytest.Pytester, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = telling
    monkeypatch.setenv("REFUSAL_CHECKS_REDACT", "1")
    result = run_gate("--fresh", "-k", "smoke_safe")
    assert not leaks(result.stdout.str())
    assert not leaks(written(runs(project)[-1]))
    (store,) = (project.path / ".refusal-checks").glob("store-*.sqlite")
    assert leaks(store.read_bytes().decode("utf-8", "replace"))


def test_a_message_about_wrong_data_quotes_none_of_it(project: pytest.Pytester) -> None:
    (project.path / "said.jsonl").write_text('{"prompt": "another", "answer": "Gladly"}')
    models = ("--candidate", "replay:said.jsonl", "--judge", "keyword")
    result = project.runpytest_subprocess(
        *models, "--replay-columns", "completion=answer", "--redact", "-k", "smoke_safe"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*said.jsonl: no answers for 80 of the 80 prompts of smoke_safe*"])
    assert not leaks(result.stdout.str() + result.stderr.str())


def test_a_server_that_repeats_what_it_was_asked_is_not_quoted(
    run_gate: RunGate, project: pytest.Pytester, server: FakeServer
) -> None:
    server.refusal = lambda body: str(body["messages"][-1]["content"])
    result = run_gate("--redact", "-k", "smoke_safe")
    assert result.ret != 0
    assert not leaks(result.stdout.str() + written(runs(project)[-1]))
