"""Schedules in virtual time, checked against cases that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.speed.schedule import Engines, Setting, Steps, Work, barriers, gate

SHORT = Setting(prompts=600, benchmarks=4, places=64)


def test_a_sequence_waits_for_a_place() -> None:
    engines, ends = Engines(1, 2), list[int]()
    for tokens in (3, 5, 4):
        engines.submit(tokens, lambda: ends.append(engines.now))
    engines.run()
    assert ends == [3, 5, 7]
    assert engines.used == pytest.approx(12 / 14)


def test_copies_get_as_many_each() -> None:
    engines = Engines(2, 1)
    for _ in range(4):
        engines.submit(10, lambda: None)
    engines.run()
    assert engines.now == 20
    assert engines.used == 1


def test_an_answer_is_judged_when_its_request_is_complete_and_the_next_prompt_follows() -> None:
    engines = Engines(1, 2)
    gate(engines, Work([[2, 6], [4, 4]], verdict=1), in_flight=1)
    assert engines.now == 6 + 1 + 4 + 1


def test_at_a_barrier_all_wait_for_the_longest() -> None:
    engines = Engines(1, 8)
    barriers(engines, Work([[2, 6], [4, 4]], verdict=1), benchmarks=2)
    assert engines.now == (6 + 1) + (4 + 1)
    engines = Engines(1, 8)
    barriers(engines, Work([[2, 6], [4, 4]], verdict=1), benchmarks=1)
    assert engines.now == 6 + 1


def test_both_ways_do_all_the_work() -> None:
    work, ours, theirs = SHORT.work(), SHORT.engines(), SHORT.engines()
    gate(ours, work, SHORT.in_flight)
    barriers(theirs, work, SHORT.benchmarks)
    asked = sum(map(sum, work.answers)) + 35 * 5 * 600
    assert ours.busy == theirs.busy == asked


def test_barriers_cost_most_where_copies_are_many() -> None:
    one, four = Steps.of(SHORT), Steps.of(replace(SHORT, copies=4))
    assert one.gate < one.barriers
    assert one.barriers / one.gate < four.barriers / four.gate
    assert 1 < one.gate / four.gate < 4
    assert one.gate_used > four.gate_used


def test_lengths_have_the_mean_that_is_asked_for() -> None:
    lengths = [length for each in Setting(prompts=5000).work().answers for length in each]
    assert sum(lengths) / len(lengths) == pytest.approx(256, rel=0.02)
    assert max(lengths) <= 8192
