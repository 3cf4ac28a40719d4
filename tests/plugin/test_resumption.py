"""What a rerun does again, and what it says of that."""

from __future__ import annotations

import pytest

from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import RunGate, well_behaved


def lines(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if " changed: " in line]


def test_what_changed_is_said_where_work_is_done_again(
    run_gate: RunGate, server: FakeServer
) -> None:
    assert lines(run_gate("-k", "smoke_unsafe")) == []
    before = len(server.asked(judge=False))
    result = run_gate("-k", "smoke_unsafe", "--judge-max-answer-chars", "9999")
    assert lines(result) == [
        "judge max_answer_chars changed: 160 verdicts to redo, 0 answers to regenerate"
    ]
    assert len(server.asked(judge=False)) == before
    assert lines(run_gate("-k", "smoke_unsafe")) == []


def test_the_first_run_of_a_benchmark_and_one_with_fresh_say_nothing(run_gate: RunGate) -> None:
    run_gate("-k", "smoke_unsafe")
    assert lines(run_gate("-k", "smoke_safe", "--temperature", "0.9")) == []
    assert lines(run_gate("-k", "smoke_safe", "--temperature", "0.8", "--fresh")) == []
    assert lines(run_gate("-k", "smoke_safe", "--temperature", "0.7")) == [
        "sampling temperature changed: 160 verdicts to redo, 160 answers to regenerate"
    ]


def test_more_of_a_benchmark_is_counted_as_new_prompts(run_gate: RunGate) -> None:
    run_gate("-k", "smoke_unsafe", "--limit", "60")
    assert lines(run_gate("-k", "smoke_unsafe")) == [
        "limit of smoke_unsafe changed: 20 prompts are new"
    ]


class Filtering(FakeServer):
    """Its filter ends the first answer to each prompt."""

    is_strict = True

    def _choice(self, index: int, said: str | Body) -> Body:
        found = super()._choice(index, said)
        is_first = self.is_strict and index == 0
        return found | ({"finish_reason": "content_filter"} if is_first else {})


def test_an_answer_that_a_filter_ended_is_stored_and_asked_for_again_on_request(
    project: pytest.Pytester,
) -> None:
    with Filtering(well_behaved) as server:
        model = f"{server.url}#fake"
        options = ("--candidate", model, "--judge", "keyword", "-k", "smoke_safe", "-v")
        result = project.runpytest_subprocess(*options)
        result.stdout.fnmatch_lines(["*invalid in smoke_safe: 80 unfinished answer*"])
        asked = len(server.requests)
        project.runpytest_subprocess(*options)
        assert len(server.requests) == asked
        server.is_strict = False
        result = project.runpytest_subprocess(*options, "--retry-unfinished")
        result.assert_outcomes(passed=1)
        assert len(server.requests) == asked + 80
        project.runpytest_subprocess(*options).assert_outcomes(passed=1)
        assert len(server.requests) == asked + 80
