"""The measuring scripts: their arithmetic, and one evaluation without a model."""

import pytest

from tools.measure.bookkeeping import figures
from tools.measure.printing import by_turns
from tools.measure.start import LAST, phases


def test_phases_of_a_start_sum_to_it_and_a_missing_line_counts_to_the_next() -> None:
    lines = [
        (2.0, "INFO non-default args: {}"),
        (9.0, "INFO Loading weights took 1.50 seconds"),
        (9.5, "INFO Loading weights took 0.10 seconds"),
        (30.0, "INFO Starting vLLM server on http://127.0.0.1:1"),
    ]
    seconds = phases(lines, ready=31.0)
    assert seconds == {
        "import of the server": 2.0,
        "weights": 7.0,
        "HTTP server": 21.0,
        LAST: 1.0,
    }


def test_figures_are_shown_by_turns_with_their_median() -> None:
    assert by_turns("ratio", {"one": [2.0, 1.5, 1.0]}, 2).splitlines()[2] == (
        "| one | 2.00, 1.50, 1.00 | **1.50** |"
    )


@pytest.mark.nightly
def test_bookkeeping_is_measured_without_a_model() -> None:
    found = figures(count=4, samples=2, turns=1)
    assert found["gate / bare client, seconds"][0] > 0
