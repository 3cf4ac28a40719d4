"""How far a run has come, in words and bars."""

import io
import re

import pytest
from rich.console import Console

from refusal_checks.reports.progress_bars import (
    Speed,
    is_active,
    progress_bars,
    progress_line,
)
from refusal_checks.results.events import Count, Progress


def progress(**judged: int) -> Progress:
    """Benchmarks of 200 prompts each, so many of them judged, with two answers each."""
    counts = {
        name: Count(200, answered=n, judged=n, answers=2 * n, done=n == 200)
        for name, n in judged.items()
    }
    return Progress(counts)


def paced(*seen: tuple[float, Progress]) -> Speed:
    pace = Speed()
    for now, found in seen:
        pace.see(found, now)
    return pace


def test_a_line_names_what_goes_on_its_speed_and_the_time_left() -> None:
    now = progress(a=120, b=50, c=200)
    pace = paced((0.0, progress(a=60, b=50, c=200)), (20.0, now))
    told = "a 120/200 judged, b 50/200 judged; 6 answers/s"
    assert progress_line(now, pace) == f"{told}; about 77 s left"
    now.tokens = lambda: 12_345
    counted = paced((0.0, progress(a=1)), (10.0, now))
    assert "1,234 tokens/s" in progress_line(now, counted)
    slow = paced((0.0, progress(a=1)), (40.0, progress(a=6)))
    assert progress_line(progress(a=6), slow).endswith("; 0.25 answers/s")
    many = progress(a=1, b=2, c=3, d=4, e=5)
    many.phase = "checking the judge"
    assert progress_line(many, Speed()) == (
        "checking the judge; a 1/200 judged, b 2/200 judged, c 3/200 judged, "
        "2 more benchmarks"
    )


def test_nothing_is_said_of_speed_before_anything_is_known_and_another_plan_begins_anew() -> (
    None
):
    assert paced((0.0, progress(a=1))).rate("answers") is None
    assert Speed().left(progress(a=1).benchmarks) is None
    assert (
        paced((0.0, progress(a=1)), (5.0, progress(a=1))).left(progress(a=1).benchmarks)
        is None
    )
    pace = paced((0.0, progress(a=100)), (10.0, progress(a=0)), (20.0, progress(a=10)))
    assert pace.rate("answers") == pytest.approx(2.0)


def test_what_the_store_held_is_forgotten_after_a_while() -> None:
    pace = paced((0.0, progress(a=0)), (1.0, progress(a=100)), (70.0, progress(a=100)))
    pace.see(progress(a=110), 80.0)
    assert pace.rate("answers") == pytest.approx(2.0)
    assert pace.left(progress(a=110).benchmarks) == pytest.approx(90.0)


def test_the_time_left_is_not_told_before_it_means_something() -> None:
    first = (0.0, progress(a=0)), (30.0, progress(a=2))
    for seen in (
        first,
        (*first, (40.0, progress(a=9))),
        ((0.0, progress(a=1)), (9.0, progress(a=99))),
    ):
        assert paced(*seen).left(progress(a=2).benchmarks) is None
    late = paced((0.0, progress(a=0)), (50.0, progress(a=0)), (90.0, progress(a=100)))
    assert late.left(progress(a=100).benchmarks) == pytest.approx(40.0)


def test_there_is_something_to_show_until_all_is_done() -> None:
    assert is_active(progress(a=1))
    assert not is_active(progress(a=200))
    assert is_active(Progress(phase="starting vLLM"))
    assert not is_active(Progress())


@pytest.mark.parametrize("size", [(100, 40), (60, 20), (40, 10), (20, 5), (200, 50)])
def test_bars_fit_a_terminal(size: tuple[int, int]) -> None:
    found = progress(**{f"benchmark_{n}": n for n in range(20)}, finished=200)
    found.benchmarks["benchmark_3"].invalid = 7
    shown = rendered(found, paced((0.0, progress(a=1)), (1.0, found)), size)
    assert len(shown) < size[1]
    assert all(len(row) <= size[0] for row in shown)
    text = "\n".join(shown)
    if size[0] >= 60:  # the bars give way before the words
        assert re.search("benchmark_3 .* 3/200 judged, 3 answered", text)
    if size[0] >= 100:
        assert all(part in text for part in ("3/200 judged", "7 invalid", "and 9 more"))
        assert "finished" not in text


def rendered(found: Progress, pace: Speed, size: tuple[int, int]) -> list[str]:
    console = Console(file=io.StringIO(), width=size[0], height=size[1])
    with console.capture() as captured:
        console.print(progress_bars(found, pace, size[1]))
    return captured.get().splitlines()
