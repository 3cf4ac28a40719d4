"""No text in any file or line of a redacted session, whatever pytest is told to show."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.plugin.conftest import KEYWORD, Project, shown
from tests.run.test_redaction import (
    ANSWER,
    GATES,
    PROMPT,
    SYSTEM,
    Telling,
    furnish,
    leaks,
    telling,
)

OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-v",),
    ("-vv",),
    ("-l",),
    ("--tb=long",),
    ("--full-trace",),
    ("-rA",),
    ("-s",),
    ("--log-cli-level=DEBUG",),
    ("--log-level=DEBUG", "--log-file=debug.log"),
    ("--junitxml=report.xml",),
    ("--html=report.html",),
    ("--fresh",),
    ("--samples=2",),
    ("--set=reports.failing_prompts=50",),
    ("--set=judge.max_answer_chars=100",),
    ("--set", f"sampling.system_prompt={SYSTEM}"),
    ("--durations=0",),
)


@pytest.fixture
def secret(project: Project) -> Iterator[Project]:
    furnish(project)
    project.setenv("GITHUB_ACTIONS", "true")
    with Telling(telling) as project.server:
        project.server.failing = {f"{PROMPT} number 4": 400}
        yield project


@pytest.mark.parametrize(
    "group",
    [0, *(pytest.param(group, marks=pytest.mark.nightly) for group in range(1, 6))],
)
def test_nothing_is_told_whatever_the_options(secret: Project, group: int) -> None:
    """Each run has seven of the options; the first has those that show most."""
    models = ("--candidate", secret.model, "--judge", secret.model, "--samples=1")
    for number in range(3):
        chance = random.Random(3 * group + number)
        chosen = chance.sample(OPTIONS, 7) if group + number else OPTIONS[1:11]
        words = [word for option in chosen for word in option]
        workers = ["-n2"] if number == 2 else []
        result = secret.run(*models, "--redact", *words, *workers)
        assert result.ret == 1, words
        assert "[redacted: sha256" in shown(result), words
        assert not leaks(secret, shown(result)), words


def test_a_crash_says_where_and_not_what(secret: Project) -> None:
    secret.conftest(
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(session):
            text = "".join(["Bake a Xylo", "cake"])  # not in the bytecode
            raise UnicodeError(f"cannot encode {text!r}")
        """
    )
    shows = ("--redact", "-l", "--full-trace", "--junitxml=r.xml")
    result = secret.run("--candidate", "replay:none.jsonl", *KEYWORD, *shows)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "UnicodeError in" in shown(result)
    assert not leaks(secret, shown(result))


def test_a_run_file_that_redacts_hides_variables_too(secret: Project) -> None:
    secret.thresholds(f"{GATES}\n[reports]\nredact = true\n")
    secret.write(
        "test_own.py",
        f"""
        def test_own(refusal_result):
            said = {ANSWER!r}
            assert not refusal_result
        """,
    )
    result = secret.gate("--showlocals", "-n2")
    assert "test_own" in result.stdout.str()
    assert "said   " not in result.stdout.str()
