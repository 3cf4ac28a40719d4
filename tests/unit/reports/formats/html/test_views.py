"""What the HTML report says of a run: the answer, the gates, the charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.records import Record
from refusal_checks.gates.compare import Earlier
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.formats.html import charts
from refusal_checks.reports.formats.html.facts import facts
from refusal_checks.reports.formats.html.gate_rows import rows, sections
from refusal_checks.reports.formats.html.labels import RADIUS, places
from refusal_checks.reports.formats.html.scatter import scatter
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.shipping import shipping
from refusal_checks.results.summary import RunSummary, balance, summarise
from tests.deciding import decide
from tests.report_runs import JUDGE, RATED, chosen, rated
from tests.unit.gates.test_baseline import scores_of

Many = Callable[..., list[Record]]

UNSAFE = Gate("unsafe", "rejection_rate", minimum=0.8)
SAFE = Gate("safe", "rejection_rate", maximum=0.2)


def summary(*verdicts: Verdict) -> RunSummary:
    return RunSummary(verdicts={found.gate.id: found for found in verdicts})


def test_a_run_that_passes_all_may_ship(records: Many) -> None:
    found = shipping(summary(decide(UNSAFE, records("R " * 50))))
    assert (found.headline, found.reasons) == ("Yes", ("the gate passed",))


def test_a_breach_outweighs_all_else(records: Many) -> None:
    run = summary(decide(UNSAFE, records("C " * 50)), decide(SAFE, records("C " * 50)))
    run.errors["other-invalid_rate"] = "no verdicts"
    found = shipping(run)
    assert found.headline == "No"
    assert found.reasons == (
        "1 of 3 gates failed",
        "1 gate could not be evaluated",
        "1 of 3 gates passed",
    )


def test_what_could_not_be_evaluated_is_not_decided(records: Many) -> None:
    run = summary(decide(UNSAFE, records("R " * 50)))
    run.errors["other-invalid_rate"] = "no verdicts"
    assert shipping(run).headline == "Not decided"
    assert shipping(replace(run, errors={}, failure="the engine died")).headline == "Not decided"
    assert shipping(RunSummary()).reasons == ("no gate was decided",)


def test_a_gate_without_its_baseline_decides_nothing(records: Many) -> None:
    idle = decide(Gate("unsafe", "rejection_rate", max_drop=0.1), records("R"))
    assert shipping(summary(idle)).reasons == (
        "no gate was decided",
        "max_drop and max_rise of 1 gate were not checked: no --baseline",
    )


def test_doubts_are_reservations(records: Many) -> None:
    few = records("R " * 5)
    assert shipping(summary(decide(UNSAFE, few))).headline == "Yes"  # as its file asks
    asked = replace(UNSAFE, decision="confident", on_inconclusive="pass")
    run = summary(decide(asked, few))
    assert shipping(run).headline == "Yes, with reservations"
    assert shipping(run).reasons[0] == "1 gate passed although too close to call"
    sure = replace(summary(decide(UNSAFE, records("R " * 50))), judge=JUDGE)
    assert shipping(sure).reasons[0] == "the judge failed its check"
    flips = summary(decide(UNSAFE, records("R " * 80 + "- " * 30)))
    assert "answers that could not be judged decide a gate" in shipping(flips).reasons


def test_a_run_of_some_of_the_gates_is_no_plain_yes(records: Many) -> None:
    run = summary(decide(UNSAFE, records("R " * 50)))
    run.manifest = run.manifest.extended(gates={"selected": 1, "known": 1})
    assert shipping(run).headline == "Yes"
    run.manifest = run.manifest.extended(gates={"selected": 1, "known": 16})
    assert shipping(run).headline == "Yes, with reservations"
    assert shipping(run).reasons[0] == "15 of 16 gates in the threshold files were not run"


def test_gates_are_sorted_by_need(records: Many) -> None:
    run = summary(
        decide(SAFE, records("C " * 50)),
        decide(UNSAFE, records("R " * 5)),
        decide(Gate("unsafe", "compliance_rate", maximum=0.1), records("C " * 50)),
    )
    run.errors["other-invalid_rate"] = "no verdicts"
    found = rows(run)
    assert [row.mark for row in found] == ["ERROR", "FAIL", "pass?", "pass"]
    assert [row.number for row in found] == [None, 2, 1, 0]
    assert found[0].reasons == ["no verdicts"]
    assert found[1].reasons[:2] == [
        "Answers 100% of prompts (allowed: 10%).",
        "misses the threshold by 45 of 50 prompts",
    ]
    assert found[1].must == "≤ 10.0%"
    assert found[2].reasons[1].startswith("inconclusive at 95% confidence")


def test_a_gate_says_what_changed(records: Many) -> None:
    gate = replace(UNSAFE, max_drop=0.05)
    earlier = Earlier(scores_of(records("R " * 60)), ("other judge",))
    (row,) = rows(summary(decide(gate, records("C " * 40 + "R " * 20), earlier=earlier)))
    assert row.change == "-66.7 points"
    assert row.change_interval.startswith("[-7")
    assert row.change_interval.endswith("n = 60")
    assert "not comparable: other judge" in row.details
    assert [moved.heading for moved in row.moved] == [
        "5 of 40 prompts no longer refused since the baseline"
    ]


def test_a_gate_of_a_margin_alone_shows_it(records: Many) -> None:
    gate = Gate("unsafe", "rejection_rate", max_drop=0.05)
    (row,) = rows(summary(decide(gate, records("R"))))
    assert (row.mark, row.tone) == ("skip", "skip")
    assert row.must == "at most 5.0% lower than the baseline"


def test_confidences_are_put_into_bins() -> None:
    votes = [-1.0, -0.6, -0.1, 0.0, 0.1, 0.10000000000000009, 0.2, 1.0]
    found = charts.histogram("b", "safety", votes)
    assert found
    assert (found.complied, found.neutral, found.rejected, found.n) == (2, 4, 2, 8)
    filled = {number: count for number, count in enumerate(found.counts) if count}
    assert filled == {0: 1, 4: 1, 9: 1, 10: 1, 11: 2, 12: 1, 19: 1}


@pytest.mark.parametrize(
    ("bounds", "good"),
    [
        ((0.8, None), (80, 100)),
        ((None, 0.1), (0, 10)),
        ((0.2, 0.4), (20, 40)),
        ((None, None), None),
    ],
)
def test_an_interval_lies_on_its_axis(
    bounds: tuple[float | None, float | None], good: Sequence[float] | None
) -> None:
    found = charts.span(
        METRICS["rejection_rate"], Estimate(0.5, 0.25, 0.75, 10), AllowedRange(*bounds)
    )
    assert (found.lower, found.value, found.upper) == (25, 50, 75)
    assert found.good == good
    assert len(found.lines) == sum(bound is not None for bound in bounds)


def test_an_axis_is_the_range_of_its_metric() -> None:
    found = charts.span(
        METRICS["mean_refusal_confidence"], Estimate(0.0, -1.0, 1.0, 3), AllowedRange(-0.5)
    )
    assert (found.lower, found.value, found.upper, found.good) == (0, 50, 100, (25, 100))


def test_groups_have_bars_of_the_first_figure_there_is() -> None:
    (found,) = charts.bars("mcq", summarise(chosen(), 0.95), {"accuracy": AllowedRange(0.5)})
    assert (found.metric.name, found.by, found.limits.low) == ("accuracy", "area", 0.5)
    assert {group: estimate.value for group, estimate in found.estimates.items()} == {
        "area_0": 0.5,
        "area_1": 1.0,
    }


def test_a_single_group_has_no_bars(records: Many) -> None:
    assert not list(charts.bars("b", summarise(records("R C", category="one"), 0.95), {}))
    assert not list(charts.bars("b", summarise(records("- -"), 0.95), {}))


def test_a_radar_has_a_spoke_for_each_category() -> None:
    found = charts.radar("cfsafety", summarise(rated(), 0.95))
    assert found
    assert [spoke.name for spoke in found.spokes] == [
        "SocialBias", "Criminal_Unethical", "Misleading", "MinorityLanguage", "LLMRewriting",
    ]  # fmt: skip
    assert found.spokes[-1].words == ["LLM", "Rewriting"]
    first = found.spokes[0]
    assert first.end == (0.0, -100.0)
    assert first.at[1] == pytest.approx(-100 * first.value / 5, abs=0.01)
    assert len(found.outline.split()) == 5


def test_two_categories_make_no_radar(records: Many) -> None:
    few = [record for record in rated() if record.prompt.groups["category"] in RATED[:2]]
    assert charts.radar("rated", summarise(few, 0.95)) is None
    assert charts.radar("b", summarise(records("R C"), 0.95)) is None


def both(records: Many, unsafe: str, safe: str, earlier: str = "") -> RunSummary:
    """A run of two benchmarks, against an earlier one of both where that is given."""
    then = Earlier(scores_of(records(earlier))) if earlier else None
    found = {"unsafe": (UNSAFE, records(unsafe)), "safe": (SAFE, records(safe))}
    run = summary(*(decide(gate, answers, earlier=then) for gate, answers in found.values()))
    for (name, (_, answers)), kind in zip(found.items(), ("safety", "sanity"), strict=True):
        run.benchmarks[name] = summarise(answers, 0.95, kind=kind)
    run.balance = balance(((b.kind, b.figures) for b in run.benchmarks.values()), 0.95)
    return run


def test_a_run_is_one_point(records: Many) -> None:
    found = scatter([("m", both(records, "C C C R", "R C C C"))])
    assert found
    (point,) = found.points
    assert (point.name, point.under.value, point.over.value) == ("m", 0.75, 0.25)
    assert found.top == 1.0
    assert not found.moves
    assert (found.x(0.5), found.y(0.5)) == (125, -85)


def test_the_baseline_is_another(records: Many) -> None:
    found = scatter([("m", both(records, "C C C R", "R C C C", "R R C C"))])
    assert found
    before, now = found.points
    assert (before.under.value, before.over.value) == (0.5, 0.5)
    assert before.is_baseline
    assert found.moves == [(before, now)]
    alone = scatter([("m", both(records, "C C C R", "R C C C", "R R C C"))], baselines=False)
    assert alone
    assert [point.name for point in alone.points] == ["m"]


POINT = st.tuples(st.floats(0, 250), st.floats(-170, 0))


@given(st.lists(POINT, max_size=12))
def test_numbers_of_points_cover_no_point_and_no_other_number(
    points: list[tuple[float, float]],
) -> None:
    found = places(points)
    assert [place.text for place in found] == [str(n) for n in range(1, len(points) + 1)]
    for number, place in enumerate(found):
        assert place.is_free(points, found[:number])


def test_a_number_stands_next_to_its_point_where_there_is_room() -> None:
    (place,) = places([(100, -80)])
    assert not place.is_far
    assert RADIUS < math.dist((place.x, place.y), (100, -80)) < 3 * RADIUS


def test_a_baseline_of_one_benchmark_is_no_point(records: Many) -> None:
    run = both(records, "C C", "C C", "R R")
    del run.verdicts[SAFE.id]
    found = scatter([("m", run)])
    assert found
    assert [point.name for point in found.points] == ["m"]


def test_a_run_without_both_kinds_is_no_point() -> None:
    assert scatter([("m", RunSummary())]) is None


def test_good_runs_are_seen_from_near(records: Many) -> None:
    found = scatter([("m", both(records, "R " * 100, "C " * 100))])
    assert found
    assert found.top == 0.05
    assert found.x(1.0) == 250


def test_the_manifest_shows_what_applied_and_no_path() -> None:
    manifest: dict[str, Any] = {
        "candidate": "replay:/home/me/answers.csv",
        "models": {"judges": {"labels": {"version": "labels", "template": None}}},
        "thresholds": {"/home/me/my gates/release.toml": "abc"},
        "extensions": {},
        "sampling": {"temperature": 0.6},
        "judge_sampling": {"temperature": 0.0},
        "multiple_choice": {"items": "agreed"},
        "versions": {"python": "3.11", "vllm": "0.20", "torch": "2.9"},
        "store": "/tmp/store.sqlite",
        "engines": {"started": []},
        "git_commit": None,
    }
    run = RunSummary(Manifest.model_validate(manifest), {"safe": summarise(rated(), 0.95)})
    run.benchmarks["safe"] = replace(run.benchmarks["safe"], kind="sanity")
    assert facts(run) == {
        "candidate": [("", "replay:…/answers.csv")],
        "models": [("judges › labels › version", "labels")],
        "thresholds": [("…/my gates/release.toml", "abc")],
        "versions": [("python", "3.11")],
        "store": [("", "…/store.sqlite")],
    }


def test_a_run_with_models_shows_its_settings() -> None:
    manifest = {
        "candidate": "org/model",
        "models": {"judges": {"org/judge": {"version": "v"}}},
        "sampling": {"temperature": 0.6, "stop": [], "seed": 0},
        "judge_sampling": {"temperature": 0.0},
        "multiple_choice": {"items": "agreed"},
        "engines": {"started": ["org/model"], "ready_s": [1.5]},
        "placement": {"kind": "one"},
    }
    run = RunSummary(Manifest.model_validate(manifest), {"mcq": summarise(chosen(), 0.95)})
    found = facts(run)
    assert found["sampling"] == [("temperature", "0.6"), ("seed", "0")]
    assert {"judge_sampling", "multiple_choice", "engines", "placement"} <= found.keys()


def test_gates_on_groups_are_folded_and_those_on_judging_stand_last(records: Many) -> None:
    good, bad = records("R " * 50, category="a"), records("C " * 50, category="a")
    group = replace(UNSAFE, group_kind="category", group="a")
    invalid = Gate("unsafe", "invalid_rate", maximum=0.02)
    broken = replace(invalid, benchmark="safe")
    run = summary(
        decide(broken, records("- " * 50 + "C " * 50)),
        decide(invalid, good),
        decide(UNSAFE, good),
        decide(group, bad),
        decide(SAFE, records("C " * 50)),
    )
    found = sections(run)
    shown = [[row.id for row in section.rows] for section in found]
    assert shown == [["unsafe-rejection_rate"], ["safe-rejection_rate"], ["safe-invalid_rate"]]
    assert [row.id for row in found[0].folded] == ["unsafe-rejection_rate-a"]
    assert (found[0].title, found[0].is_open) == ("1 gate on groups: 1 FAIL", True)
    assert (found[2].title, found[2].is_open) == (
        "1 gate on how answers were judged: 1 pass",
        False,
    )


def test_a_failed_benchmark_keeps_its_groups_folded(records: Many) -> None:
    bad = records("C " * 50, category="a")
    group = replace(UNSAFE, group_kind="category", group="a")
    (section,) = sections(summary(decide(UNSAFE, bad), decide(group, bad)))
    assert not section.is_open


def test_answers_that_all_say_one_of_two_things_have_no_histogram() -> None:
    assert charts.histogram("b", "safety", [-1.0, 1.0, 1.0]) is None
    assert charts.histogram("b", "safety", []) is None
    assert charts.histogram("b", "safety", [-1.0, 1.0, 0.2])
