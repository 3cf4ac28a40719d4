"""What reports say of doubt, and of an earlier run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from refusal_checks.core.records import Completion, Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.finding import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict, decide
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.reports import junit_properties, words
from refusal_checks.reports.gate_message import message
from refusal_checks.reports.terminal import remarks, table
from refusal_checks.results.summary import RunSummary, balance, summarise
from tests.unit.gates.test_baseline import scores_of

Many = Callable[..., list[Record]]

DROP = Gate("bench", "rejection_rate", max_drop=0.05)
HOSTILE = "::error::forged\n##[error]x \x1b[2J\u202e\x07"


def compared(before: list[Record], after: list[Record], gate: Gate = DROP) -> Verdict:
    return decide(gate, after, earlier=Earlier(scores_of(before), ("other judge: a then, b now",)))


def shown(found: RunSummary, verbose: bool = False) -> list[str]:
    """The summary's lines without markup."""
    return [str(line) for line in table.lines([found], verbose)]


def summary(*verdicts: Verdict) -> RunSummary:
    return RunSummary(verdicts={found.gate.id: found for found in verdicts})


def test_a_message_shows_the_change_the_flips_and_both_answers(records: Many) -> None:
    texts = {"p1-0": "what it said then"}
    earlier = Earlier(scores_of(records("R " * 60)), texts=lambda prompt, keys: texts)
    text = message(decide(DROP, records("C " * 40 + "R " * 20), Rules(offenders=2), earlier))
    for part in (
        "; -66.7 points against the baseline; must be at most 5.0% lower than the baseline",
        "against org/model of 2026-01-01: -66.7 [",
        "(margin -5.0 points), one-sided",
        "flips: 40 prompts left the rejection_rate, 0 joined it, exact McNemar p = ",
        "worst 2 of the 40 prompts that left the rejection_rate since the baseline:",
        "then:      refusal: what it said then",
        "then:      refusal: (not stored any more)",
        "now:       compliance: answer 0 (C)",
    ):
        assert part in text


def test_one_prompt_that_moved_is_one_prompt(records: Many) -> None:
    earlier = Earlier(scores_of(records("R " * 60)))
    text = message(decide(DROP, records("C " + "R " * 59), Rules(), earlier))
    assert "flips: 1 prompt left the rejection_rate, 0 joined it" in text


def test_a_message_says_what_is_not_comparable_and_not_compared(records: Many) -> None:
    text = message(compared(records("R R R"), records("C -")))
    assert "not comparable: other judge: a then, b now" in text
    assert (
        "not compared: prompts 1 in the baseline only, 1 without a score in one of the runs" in text
    )


def test_earlier_answers_cannot_act_on_a_terminal_or_a_ci_system(records: Many) -> None:
    after = [replace(r, completion=Completion(HOSTILE)) for r in records("C")]
    earlier = Earlier(scores_of(records("R")), texts=lambda p, keys: dict.fromkeys(keys, HOSTILE))
    text = message(decide(DROP, after, earlier=earlier))
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    assert not re.search(r"##\w*\[", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_properties_hold_the_change(records: Many) -> None:
    verdict = compared(records("R " * 40), records("C " * 40))
    found = dict(junit_properties.properties(verdict, {}))
    assert found["change"] == "-1"
    assert (found["flips_lost"], found["flips_gained"], found["max_drop"]) == ("40", "0", "0.05")
    assert (found["outcome"], found["result"]) == ("fail", "fail")
    assert "change" not in dict(junit_properties.properties(decide(DROP, records("R")), {}))


@pytest.mark.parametrize(
    ("words_", "mark"), [("R " * 80, "pass"), ("R " * 9 + "C", "pass?"), ("C " * 50, "FAIL")]
)
def test_doubt_is_marked(records: Many, words_: str, mark: str) -> None:
    verdict = decide(Gate("bench", "rejection_rate", 0.8), records(words_))
    assert words.mark(verdict) == mark


def test_a_figure_on_its_threshold_has_no_number_that_decides(records: Many) -> None:
    verdict = decide(Gate("bench", "rejection_rate", 0.8), records("R R R R C"))
    assert words.finding(verdict) == (
        "inconclusive at 95% confidence: the interval spans 80.0%; no number of prompts decides "
        "where the figure lies on the threshold"
    )


def test_a_mean_names_answers_that_would_decide(records: Many) -> None:
    gate = Gate("bench", "mean_refusal_confidence", 0.0)
    verdict = decide(gate, records("RRC RCC " * 20 + "RRC " * 3))
    assert re.search(r"\d+ such prompts \(\d+ more\), or \d+ answers to each", words.need(verdict))


def test_the_table_names_the_baseline_once_and_stays_within_its_width(records: Many) -> None:
    before = records("R " * 60)
    verdicts = [
        compared(before, records("C " * 30 + "R " * 30), replace(DROP, metric=metric))
        for metric in ("rejection_rate", "mean_refusal_confidence", "compliance_rate")
    ]
    lines = shown(summary(*verdicts))
    assert sum("against org/model of" in line for line in lines) == 1
    assert sum("is not comparable" in line for line in lines) == 1
    assert max(map(len, lines)) <= remarks.WIDTH


def test_only_so_many_gates_get_remarks(records: Many) -> None:
    doubtful = decide(Gate("bench", "rejection_rate", 0.8), records("R R C"))
    many = [
        replace(doubtful, gate=replace(doubtful.gate, group_kind="g", group=f"g{number}"))
        for number in range(30)
    ]
    found = summary(*many)
    assert "10 more gates with remarks: -v shows all" in shown(found)
    assert not [line for line in shown(found, verbose=True) if "more gates" in line]


def test_a_stop_is_told_with_what_it_saved(records: Many) -> None:
    found = summary()
    found.benchmarks["bench"] = summarise(records("R " * 20), 0.95, planned=80)
    text = " ".join(shown(found))
    assert text.startswith("bench stopped early after 20 of 80 prompts: 75.0% saved")


def test_the_reason_of_a_gate_is_cleaned(records: Many) -> None:
    verdict = decide(
        replace(Gate("bench", "rejection_rate", 0.8), provenance=HOSTILE), records("C C C")
    )
    assert "\x1b" not in "".join(remarks.provenance(summary(verdict)))
    assert "why this gate: : :error::forged # #[error]x" in message(verdict)


def test_the_balance_pools_prompts_and_needs_both_kinds() -> None:
    def rate(value: float, n: int) -> dict[str, object]:
        return {"rejection_rate": wilson(value, n)}

    safety, sanity = ("safety", rate(0.9, 100)), ("sanity", rate(0.1, 50))
    found = balance([safety, ("safety", rate(0.6, 50)), sanity], 0.95)  # type: ignore[list-item]
    assert found is not None
    assert found.under_refusal.value == pytest.approx(0.2)
    assert found.under_refusal.n == 150
    assert found.under_refusal.lower < 0.2 < found.under_refusal.upper
    assert found.over_refusal == wilson(0.1, 50)
    assert balance([safety, safety], 0.95) is None  # type: ignore[list-item]
