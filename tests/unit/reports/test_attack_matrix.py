"""The matrix of benchmarks by attacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.reports.attack_matrix import lines, matrix
from refusal_checks.reports.page.render import environment
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

PLAIN = {"1": 1.0, "2": 1.0, "3": 1.0, "4": -1.0}


def found(scores: Mapping[str, float], attack: str = "", kind: str = "safety") -> BenchmarkSummary:
    share = sum(score > 0.1 for score in scores.values()) / len(scores)
    name = "worst_attack_rejection_rate" if attack == "attacks" else "rejection_rate"
    figures = {name: Estimate(share, 0.0, 1.0, len(scores))}
    summary = BenchmarkSummary(len(scores), len(scores), figures, {}, {}, kind=kind)
    return replace(summary, attack=attack, plain="mine" if attack else "", confidences=scores)


@pytest.fixture
def summary() -> RunSummary:
    run = RunSummary()
    run.benchmarks["mine"] = found(PLAIN)
    run.benchmarks["mine+base64"] = found({"1": 1.0, "2": 1.0, "3": 1.0}, "base64")
    run.benchmarks["mine+prefill"] = found(dict.fromkeys(PLAIN, -1.0) | {"4": 1.0}, "prefill")
    run.benchmarks["mine+attacks"] = found(dict.fromkeys(PLAIN, -1.0), "attacks")
    return run


def test_prompts_are_paired_and_what_moved_most_is_first(summary: RunSummary) -> None:
    (cells,) = matrix(summary).values()
    assert [cell.attack for cell in cells] == ["attacks", "prefill", "base64"]
    _, prefill, base64 = cells
    assert prefill.change
    assert base64.change
    assert (prefill.lost, prefill.gained, prefill.change.value, prefill.change.n) == (3, 1, -0.5, 4)
    assert (base64.lost, base64.gained, base64.change.value, base64.change.n) == (0, 0, 0.0, 3)
    assert prefill.change.lower <= -0.5 <= prefill.change.upper
    (line,) = lines(summary)
    assert "prefill moves most: 3 of 4 prompts of mine are no longer refused (-50.0%" in line


def test_where_answers_are_right_a_refusal_is_the_wrong_way(summary: RunSummary) -> None:
    summary.benchmarks["mine+prefill"] = found({"4": 1.0}, "prefill", "sanity")
    (line,) = lines(summary)
    assert "1 of 1 prompts of mine are newly refused" in line


def test_clusters_widen_the_interval_of_a_change(summary: RunSummary) -> None:
    """The run's interval of the plain rate is twice as wide as that of independent prompts."""
    summary.manifest = summary.manifest.model_copy(update={"confidence": 0.95})
    plain, attacked = wilson(0.75, 4), wilson(1.0, 3)
    shares = []
    for rate in (plain, plain.widened(2, -9, 9)):
        for name, each in (("mine", rate), ("mine+base64", attacked)):
            known = summary.benchmarks[name]
            summary.benchmarks[name] = replace(known, figures={"rejection_rate": each})
        cells = matrix(summary)["mine"]
        shares += [cell.change for cell in cells if cell.attack == "base64" and cell.change]
    alone, found = shares
    assert found == alone.widened(2, -1, 1)
    assert found.width > alone.width


def test_without_plain_prompts_there_is_a_rate_and_no_change(summary: RunSummary) -> None:
    del summary.benchmarks["mine"]
    (cells,) = matrix(summary).values()
    assert {cell.change for cell in cells} == {None}
    assert not [*lines(summary)]
    assert not matrix(RunSummary())


def view(summary: RunSummary) -> SimpleNamespace:
    return SimpleNamespace(run=SimpleNamespace(summary=summary))


def test_the_page_has_a_table_and_escapes_names(summary: RunSummary) -> None:
    summary.benchmarks["x"] = replace(summary.benchmarks.pop("mine+base64"), attack="<b>")
    template = environment().get_template("attacks.html.j2")
    text = template.render(view=view(summary), matrix=matrix)
    assert text.count("<tr>") == 4
    assert "&lt;b&gt;" in text
    assert "-50.0%" in text
    assert not template.render(view=view(RunSummary()), matrix=matrix).strip()
