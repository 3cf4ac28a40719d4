"""The summary table: groups, columns, candidates, markup, and what it was found with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict, decide
from refusal_checks.reports import rows as table
from refusal_checks.reports.terminal import footer, remarks
from refusal_checks.reports.terminal import table as terminal
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary, summarise
from tests.unit.gates.test_baseline import scores_of

Many = Callable[..., list[Record]]

RATE = Gate("bench", "rejection_rate", minimum=0.5)
INVALID = Gate("bench", "invalid_rate", maximum=0.02)
GROUP = replace(RATE, group_kind="category", group="fraud")


def run(*verdicts: Verdict, candidate: str = "org/model", **errors: str) -> RunSummary:
    found = {verdict.gate.id: verdict for verdict in verdicts}
    return RunSummary(Manifest(candidate=candidate), verdicts=found, errors=errors)


def lines(*runs: RunSummary, verbose: bool = False) -> list[str]:
    return [str(line) for line in terminal.lines(runs, verbose)]


def test_a_benchmark_s_gates_stand_together_the_main_one_first_and_in_full(records: Many) -> None:
    found = records("R " * 40, category="fraud")
    other = decide(replace(RATE, benchmark="other"), found)
    verdicts = [decide(gate, found) for gate in (GROUP, INVALID, RATE)]
    shown = lines(run(verdicts[0], other, *verdicts[1:]), verbose=True)
    assert [line[:28].rstrip() for line in shown[:5]] == [
        "       gate",
        "pass   bench-rejection_rate",
        "pass     rejection_rate-fraud"[:28],
        "pass?    invalid_rate",
        "pass   other-rejection_rate",
    ]
    bold = [line.bold for line in terminal.lines([run(*verdicts, other)], True)]
    assert bold[1:5] == [True, False, False, True]


def test_a_passing_gate_on_invalid_answers_has_a_column_and_no_row(records: Many) -> None:
    verdicts = [decide(gate, records("R " * 60)) for gate in (RATE, INVALID)]
    assert not any("invalid_rate" in line for line in lines(run(*verdicts)))
    assert "1 more gate passed, on invalid answers: -v shows" in lines(run(*verdicts))
    assert any("invalid_rate" in line for line in lines(run(*verdicts), verbose=True))


def test_one_that_fails_or_stands_alone_has_a_row(records: Many) -> None:
    failed = decide(INVALID, records("R " * 60 + "- " * 20))
    assert any("FAIL" in line and "invalid_rate" in line for line in lines(run(failed)))
    alone = run(decide(INVALID, records("R " * 300)))
    assert any("bench-invalid_rate" in line for line in lines(alone))


def test_the_change_has_a_column_only_with_a_baseline(records: Many) -> None:
    earlier = Earlier(scores_of(records("R " * 40)))
    after = records("R " * 30 + "C " * 10)
    with_it, without = decide(RATE, after, earlier=earlier), decide(RATE, after)
    header, row = lines(run(with_it))[:2]
    assert header.split()[-2:] == ["change", "invalid"]
    assert row.split()[-2:] == ["-25.0", "0.0%"]
    assert "change" not in lines(run(without))[0]


def test_several_candidates_share_a_table_gate_by_gate(records: Many) -> None:
    good = run(decide(RATE, records("R " * 40)), candidate="http://h/v1#org/one")
    bad = run(decide(RATE, records("C " * 40)), candidate="/models/two/")
    bad.failure = "the engine ended"
    shown = lines(good, bad)
    assert shown[0] == "two: the engine ended"
    assert [line.split()[:3] for line in shown[2:4]] == [
        ["pass", "bench-rejection_rate", "one"],
        ["FAIL", "bench-rejection_rate", "two"],
    ]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["org/model"], [""]),
        (["a/one", "b/two"], ["one", "two"]),
        (["a/one", "b/one"], ["a/one", "b/one"]),
        (["x" * 40 + "1", "x" * 40 + "2"], ["…" + "x" * 18 + "1", "…" + "x" * 18 + "2"]),
        (["1" + "x" * 40, "2" + "x" * 40], ["1 …" + "x" * 16, "2 …" + "x" * 16]),
    ],
)
def test_candidates_have_short_names_that_differ(names: list[str], shown: list[str]) -> None:
    found = table.candidate_names([run(candidate=name) for name in names])
    assert found == shown
    assert all(len(name) <= table.CANDIDATE_WIDTH for name in found)


def test_everything_at_once_fits_in_a_hundred_columns(records: Many) -> None:
    gate = Gate("adversarial_unsafe_prompts", "mean_refusal_confidence", -0.5, 0.5)
    earlier = Earlier(scores_of(records("R " * 40)))
    long = replace(gate, group_kind="c", group="\x1b[31m" + "contrast privacy " * 5)
    grouped = records("R " * 40, c=str(long.group))
    verdicts = decide(gate, grouped, earlier=earlier), decide(long, grouped)
    error = {"adversarial_unsafe_prompts-rejection_rate": "no valid verdict " * 20}
    runs = [run(*verdicts, candidate=name * 30, **error) for name in "ab"]
    shown = lines(*runs)
    assert max(map(len, shown)) <= remarks.WIDTH
    assert not [line for line in shown if "\x1b" in line]
    assert "       adversarial_unsafe_prompts-mean_refusal_confidence" in shown
    errors = [line for line in shown if line.startswith("ERROR")]
    assert [line.endswith("…") for line in errors] == [True, True]
    assert [line.split()[1][-2:] for line in errors] == ["a:", "b:"]


def test_a_gate_whose_name_has_no_room_has_a_line_of_its_own(records: Many) -> None:
    gates = [replace(RATE, maximum=0.9), replace(GROUP, maximum=0.9)]
    earlier, found = Earlier(scores_of(records("R " * 40))), records("R " * 40, category="fraud")
    verdicts = [decide(gate, found, earlier=earlier) for gate in gates]
    runs = [run(*verdicts, candidate=f"/m/{'long-name-of-a-run-' * 2}{n}") for n in (1, 2)]
    shown = list(terminal.lines(runs))
    assert [str(line).rstrip()[:34] for line in shown[:7]] == [
        "      candidate             figure",
        "      bench-rejection_rate",
        "FAIL  …ong-name-of-a-run-1  100.0%",
        "FAIL  …ong-name-of-a-run-2  100.0%",
        "        rejection_rate-fraud",
        "FAIL  …ong-name-of-a-run-1  100.0%",
        "FAIL  …ong-name-of-a-run-2  100.0%",
    ]
    assert [line.bold for line in shown[1:5]] == [True, True, True, False]


def test_characters_of_double_width_keep_the_columns(records: Many) -> None:
    group = replace(GROUP, group="网络诈骗与信息安全" * 6)
    found = records("R " * 40, category=str(group.group))
    _, *rows = lines(run(*(decide(gate, found) for gate in (RATE, group))))
    assert len({cell_len(row[: row.index("100.0%")]) for row in rows[:2]}) == 1
    assert max(map(cell_len, rows[:2])) <= remarks.WIDTH


@pytest.mark.parametrize(
    ("words", "mark", "colour"),
    [("R " * 80, "pass", "green"), ("R " * 9 + "C", "pass?", "yellow"), ("C " * 50, "FAIL", "red")],
)
def test_outcomes_have_colours_beside_their_words(
    records: Many, words: str, mark: str, colour: str
) -> None:
    found = run(decide(replace(RATE, minimum=0.8), records(words)))
    (shown, markup), (_, text) = list(terminal.lines([found]))[1].pieces
    assert (shown, markup[colour], text) == (mark, True, {"bold": True})


def test_the_footer_tells_what_the_figures_were_found_with(records: Many) -> None:
    found = run()
    found.benchmarks["bench"] = summarise(records("RR"), 0.95)
    role = {
        "requests": 3,
        "retries": 0,
        "prompt": 1200,
        "cached": 200,
        "output": 50,
        "verdicts": 0,
    }
    found.manifest = found.manifest.extended(
        models={"judges": {"org/judge": {}}},
        engines={"started": ["org/model", "org/judge"], "attached": [], "ready_s": [41.3]},
        tokens={"candidate": role, "judge": {"requests": 0}},
        asked={"answers": 1, "verdicts": 2, "reused": 1},
        evaluation_s=0.5,
        store="store.sqlite",
    )
    shown = list(footer.lines([(found, Path("runs/one"))]))
    assert max(map(len, shown)) <= remarks.WIDTH
    assert " ".join(" ".join(shown).split()) == " ".join(
        [
            "candidate org/model, judge org/judge",
            "engine started org/model, org/judge, ready after 41 s",
            "tokens: candidate 1,200 prompt (200 cached), 50 output in 3 requests",
            "time 0.5 s for 2 answers with their verdicts, 4 a second; 1 answers were stored, at "
            "most 1 were generated and 2 verdicts asked for",
            "store store.sqlite",
            "run folder runs/one",
        ]
    )


def test_the_footer_stays_within_its_columns() -> None:
    found = run()
    names = ("requests", "retries", "prompt", "cached", "output", "verdicts")
    role = dict.fromkeys(names, 123_456_789)
    found.manifest = found.manifest.extended(tokens={"candidate": role, "judge": role})
    assert max(map(len, footer.lines([(found, Path())]))) <= remarks.WIDTH


def test_the_footer_says_that_no_engine_was_needed() -> None:
    found = run()
    engines = {"started": [], "attached": [], "ready_s": [0.0]}
    found.manifest = found.manifest.extended(engines=engines)
    assert "engine none: nothing was asked of a model" in footer.lines([(found, Path())])
