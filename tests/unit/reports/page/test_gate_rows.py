"""What the page says of a run: its gates and its manifest."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.gates.gate import Gate
from refusal_checks.reports.page import gate_rows
from refusal_checks.reports.page.manifest_facts import facts
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary
from tests.support.deciding import decide, summary_of
from tests.unit.conftest import records

UNSAFE = Gate("unsafe", "rejection_rate", min=0.8)
SAFE = Gate("safe", "rejection_rate", max=0.2)


GOOD, BAD = records("R " * 50, category="a"), records("C " * 50, category="a")
GROUP = replace(UNSAFE, group_kind="category", group="a")
INVALID = Gate("unsafe", "invalid_rate", max=0.02)


def by_need() -> RunSummary:
    run = summary_of(
        decide(SAFE, BAD),
        decide(UNSAFE, records("R " * 5)),
        decide(Gate("third", "compliance_rate", max=0.1), BAD),
    )
    run.errors["other-invalid_rate"] = "no verdicts"
    return run


def with_groups() -> RunSummary:
    broken = records("- " * 50 + "C " * 50)
    return summary_of(
        decide(replace(INVALID, benchmark="safe"), broken),
        decide(INVALID, GOOD),
        decide(UNSAFE, GOOD),
        decide(GROUP, BAD),
        decide(SAFE, BAD),
    )


BOARDS: dict[str, Callable[[], RunSummary]] = {
    "by need": by_need,
    "a failed group": with_groups,
    "a failed benchmark": lambda: summary_of(decide(UNSAFE, BAD), decide(GROUP, BAD)),
}


@pytest.mark.parametrize("case", BOARDS)
def test_gates_stand_by_need_and_groups_are_folded(
    case: str, snapshot: SnapshotAssertion
) -> None:
    told: list[str] = []
    for section in gate_rows.sections(BOARDS[case]()):
        told += [" | ".join(row.columns) for row in section.rows]
        if section.folded:
            told.append(f"{'open' if section.is_open else 'folded'}: {section.title}")
            told += [f"  {row.id}" for row in section.folded]
    assert "\n".join(told) == snapshot


def test_the_manifest_shows_what_is_known_and_no_path() -> None:
    manifest = {
        "candidate": "replay:/home/me/answers.csv",
        "models": {"judges": {"labels": {"version": "labels"}}},
        "thresholds": {"/home/me/my gates/release.toml": "abc"},
        "extensions": {},
        "sampling": {"temperature": 0.6, "stop": []},
        "git_commit": None,
    }
    assert facts(Manifest.model_validate(manifest), Execution(seconds=1.5)) == {
        "candidate": [("", "replay:…/answers.csv")],
        "models": [("judges › labels › version", "labels")],
        "thresholds": [("…/my gates/release.toml", "abc")],
        "sampling": [("temperature", "0.6")],
        "seconds": [("", "1.5")],
    }
