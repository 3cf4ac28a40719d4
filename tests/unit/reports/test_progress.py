"""How far a run has come, in words and bars."""

import io
import re

import pytest
from rich.console import Console

from refusal_checks.reports.progress import ProgressView, is_active
from refusal_checks.results.events import BenchmarkProgress, Progress


def progress(**judged: int) -> Progress:
    """Benchmarks of 200 prompts each, so many of them judged, with two answers each."""
    counts = {
        name: BenchmarkProgress(
            200, begun=n, answered=n, judged=n, answers=2 * n, done=n == 200
        )
        for name, n in judged.items()
    }
    return Progress(counts)


def line(*seen: tuple[float, Progress]) -> str:
    """The line after these counts were seen at these times."""
    now = [0.0]

    def clock() -> float:
        return now[0]

    view = ProgressView(Console(file=io.StringIO()), False, clock)
    for now[0], found in seen:
        view.update(found)
    return view.line


def test_a_line_names_what_goes_on_its_speed_and_the_time_left() -> None:
    seen = (0.0, progress(a=60, b=50, c=200)), (20.0, progress(a=120, b=50, c=200))
    told = "a 120/200 judged, b 50/200 judged; 6 answers/s; about 77 s left"
    assert line(*seen) == told
    counted = progress(a=1), progress(a=1)
    counted[0].tokens, counted[1].tokens = (lambda: 1), (lambda: 12_346)
    assert "1,234 tokens/s" in line((0.0, counted[0]), (10.0, counted[1]))
    many = progress(a=1, b=2, c=3, d=4, e=5)
    many.phase = "checking the judge"
    assert line((0.0, many)) == (
        "checking the judge; a 1/200 judged, b 2/200 judged, c 3/200 judged, "
        "2 more benchmarks"
    )


def test_while_no_answer_arrives_the_line_says_how_many_prompts_were_asked() -> None:
    found = progress(a=0)
    found.benchmarks["a"].begun = 64
    assert line((0.0, found)) == "a 0/200 judged; 64 in flight"
    found.benchmarks["a"].answered = 60
    found.benchmarks["a"].invalid = 1
    said = "a 0/200 judged; 60 answered; 4 in flight; 1 answers invalid"
    assert line((0.0, found)) == said


@pytest.mark.parametrize(
    ("judged", "told"),
    [
        pytest.param({0: 1, 5: 1}, "1/200 judged", id="nothing is known yet"),
        pytest.param(
            {0: 1, 2: 50, 4: 99}, "99/200 judged; 49 answers/s", id="too early"
        ),
        pytest.param({0: 1, 40: 6}, "6/200 judged; 0.25 answers/s", id="too few"),
        pytest.param(
            {0: 100, 10: 110, 20: 120},
            "120/200 judged; 2 answers/s; about 80 s left",
            id="what the store held is forgotten",
        ),
        pytest.param(
            {0: 100, 10: 0, 20: 10, 30: 20},
            "20/200 judged; 2 answers/s; about 3 min left",
            id="another plan begins anew",
        ),
    ],
)
def test_speed_and_time_are_told_once_they_mean_something(
    judged: dict[int, int], told: str
) -> None:
    assert line(*((now, progress(a=n)) for now, n in judged.items())) == f"a {told}"


def test_there_is_something_to_show_until_all_is_done() -> None:
    assert is_active(progress(a=1))
    assert not is_active(progress(a=200))
    assert is_active(Progress(phase="starting vLLM"))
    assert not is_active(Progress())


@pytest.mark.parametrize("width", [100, 40])
def test_bars_fit_a_terminal(width: int) -> None:
    found = progress(**{f"benchmark_{n}": n for n in range(8)}, finished=200)
    found.benchmarks["benchmark_3"].invalid = 7
    console = Console(file=io.StringIO(), width=width, height=40)
    view = ProgressView(console, draws=False)
    view.update(found)
    with console.capture() as captured:
        console.print(view.bars.get_renderable())
    shown = captured.get().splitlines()
    assert len(shown) == 9
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    assert "finished" not in text
    told = re.search("benchmark_3 .* 3/200 judged; 7 answers invalid", text)
    assert told or width < 100
