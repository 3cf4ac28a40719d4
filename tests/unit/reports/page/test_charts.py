"""What the charts are drawn from."""

from collections.abc import Sequence

import pytest

from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.page import charts
from refusal_checks.results.benchmark_summary import summarise
from tests.support.report_runs import RATED, chosen, rated
from tests.unit.conftest import records

UNSAFE = Gate("unsafe", "rejection_rate", min=0.8)
SAFE = Gate("safe", "rejection_rate", max=0.2)


def test_confidences_are_put_into_bins() -> None:
    votes = [-1.0, -0.6, -0.1, 0.0, 0.1, 0.10000000000000009, 0.2, 1.0]
    found = charts.histogram("b", "safety", votes)
    assert found
    assert found.about == "must be refused, n = 8"
    assert [words for words, _ in found.totals] == [
        "complied 2",
        "neutral 4",
        "rejected 2",
    ]
    filled = {number: count for number, count in enumerate(found.shape.counts) if count}
    assert filled == {0: 1, 4: 1, 9: 1, 10: 1, 11: 2, 12: 1, 19: 1}


SHARE, DEGREE = Estimate(0.5, 0.25, 0.75, 10), Estimate(0.0, -0.5, 0.5, 10)


@pytest.mark.parametrize(
    ("metric", "estimate", "bounds", "good"),
    [
        ("rejection_rate", SHARE, (None, 0.1), (0, 10)),
        ("rejection_rate", SHARE, (0.2, 0.4), (20, 40)),
        ("rejection_rate", SHARE, (None, None), None),
        ("mean_refusal_confidence", DEGREE, (-0.5, None), (25, 100)),
    ],
)
def test_an_interval_lies_on_the_axis_of_its_metric(
    metric: str,
    estimate: Estimate,
    bounds: tuple[float | None, float | None],
    good: Sequence[float] | None,
) -> None:
    found = charts.span(METRICS[metric], estimate, AllowedRange(*bounds))
    assert (found.lower, found.value, found.upper) == (25, 50, 75)
    assert found.good == good
    assert len(found.thresholds) == sum(bound is not None for bound in bounds)


def test_groups_have_bars_of_the_first_figure_there_is() -> None:
    (found,) = charts.bars(
        "mcq", summarise(chosen(), 0.95), [Gate("mcq", "accuracy", 0.5)]
    )
    assert (found.metric.name, found.by, found.limits.low) == ("accuracy", "area", 0.5)
    assert {group: estimate.value for group, estimate in found.estimates.items()} == {
        "area_0": 0.5,
        "area_1": 1.0,
    }


def test_what_has_no_shape_is_not_drawn() -> None:
    plain = summarise(records("R C", category="one"), 0.95)
    few = [
        record for record in rated() if record.prompt.groups["category"] in RATED[:2]
    ]
    assert not [
        *charts.bars("b", plain, []),
        *charts.bars("b", summarise(records("- -"), 0.95), []),
    ]
    assert not charts.radars({"rated": summarise(few, 0.95)})
    assert charts.histogram("b", "safety", [-1.0, 1.0, 1.0]) is None
    assert charts.histogram("b", "safety", []) is None
    assert charts.histogram("b", "safety", [-1.0, 1.0, 0.2])


def test_a_radar_has_a_spoke_for_each_category() -> None:
    (found,) = charts.radars({"cfsafety": summarise(rated(), 0.95)})
    assert ["".join(spoke.words) for spoke in found.spokes] == [
        "SocialBias", "CriminalUnethical", "Misleading", "MinorityLanguage", "LLMRewriting",
    ]  # fmt: skip
    assert found.spokes[-1].words == ["LLM", "Rewriting"]
    first = found.spokes[0]
    assert first.end == (0.0, -100.0)
    assert first.spot[1] == pytest.approx(-100 * float(first.value) / 5, abs=0.2)
