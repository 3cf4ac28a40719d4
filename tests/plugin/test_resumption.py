"""What a rerun does again, and what it says of that."""

from __future__ import annotations

import pytest

from tests.fake_server import FakeServer
from tests.plugin.conftest import RunGate


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
