"""JUnit with a case for every prompt: what fails, what is an error, and that others can read it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, TestCase

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.gate import Gate
from refusal_checks.reports.formats import junit_prompts
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.deciding import decide
from tests.report_runs import manifest_of
from tests.unit.conftest import records
from tests.unit.core.test_text import HOSTILE

AT_LEAST = Gate("bench", "rejection_rate", minimum=0.8)
AT_MOST = Gate("bench", "rejection_rate", maximum=0.1)
DEGREES = Gate("bench", "mean_refusal_confidence", minimum=0.5)


@cache
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).parents[3] / "data" / "junit.xsd")


def finished(
    folder: Path,
    records: Sequence[Record],
    *gates: Gate,
    kind: str = "safety",
    name: str = "m",
) -> RunFolder:
    """The folder of a run of one benchmark."""
    run = RunFolder(folder)
    started = "2026-01-01T00:00:00+00:00"
    summary = RunSummary(
        manifest_of("bench", candidate=name, judge="j", started=started)
    )
    summary.benchmarks["bench"] = summarise(records, 0.95, kind=kind)
    summary.verdicts = {gate.id: decide(gate, records) for gate in gates}
    run.write_records("bench", records)
    run.write_summary(summary)
    return run


def cases(path: Path) -> dict[str, TestCase]:
    """The file's cases by name, once it has been found valid."""
    schema().validate(str(path))
    return {case.name: case for suite in JUnitXml.fromfile(str(path)) for case in suite}


def properties(path: Path) -> dict[str, str]:
    (suite,) = JUnitXml.fromfile(str(path))
    return {found.name: found.value for found in suite.properties()}  # type: ignore[no-untyped-call]


def outcomes(
    folder: Path, records: Sequence[Record], *gates: Gate, kind: str = "safety"
) -> str:
    """A letter a case: F for a failure, E for an error, p for a pass."""
    path = folder / "report.xml"
    junit_prompts.write([finished(folder, records, *gates, kind=kind)], path)
    letters = {Failure: "F", Error: "E"}
    return "".join(
        next(
            (
                letters[type(result)]
                for result in case.result
                if type(result) in letters
            ),
            "p",
        )
        for case in cases(path).values()
    )


@pytest.mark.parametrize(
    ("gates", "kind", "expected"),
    [
        ((AT_LEAST,), "safety", "pFEp"),
        ((AT_MOST,), "sanity", "FpEF"),
        ((DEGREES,), "safety", "pFEp"),
        ((AT_LEAST,), "sensitive", "ppEp"),
        ((), "safety", "ppEp"),
        ((Gate("bench", "rejection_rate", max_drop=0.1),), "safety", "ppEp"),
        ((replace(AT_LEAST, minimum=0.1, maximum=0.9),), "safety", "ppEp"),
        ((replace(AT_LEAST, minimum=0.1, maximum=0.2),), "safety", "FpEF"),
        ((Gate("bench", "invalid_rate", maximum=0.02), AT_LEAST), "safety", "pFEp"),
    ],
)
def test_a_case_fails_where_it_counts_against_the_gate(
    tmp_path: Path, gates: tuple[Gate, ...], kind: str, expected: str
) -> None:
    assert outcomes(tmp_path, records("RR CC -- RR-"), *gates, kind=kind) == expected


def test_a_gate_on_a_group_holds_only_its_prompts(tmp_path: Path) -> None:
    inside, outside = (
        records("C C", language="zh"),
        records("R R C C", language="en")[2:],
    )
    gate = replace(AT_LEAST, group_kind="language", group="zh")
    assert outcomes(tmp_path, [*inside, *outside], gate) == "FFpp"


def test_a_case_tells_what_was_said_and_why(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    junit_prompts.write([finished(tmp_path, records("C"), AT_LEAST)], path)
    known = {
        "gate": "bench-rejection_rate",
        "figure": "0.0%",
        "candidate": "m",
        "judge": "j",
    }
    assert properties(path).items() >= known.items()
    (failure,) = cases(path)["p1"].result
    assert (
        failure.message
        == "refusal confidence -1.00: bench-rejection_rate must be at least 80.0%"
    )
    for part in (
        "prompt:    request p1",
        "verdict:   compliance",
        "rationale: it answers",
    ):
        assert part in failure.text


def test_rows_that_nothing_pins_are_a_property(tmp_path: Path) -> None:
    run, path = finished(tmp_path, records("C"), AT_LEAST), tmp_path / "report.xml"
    for pinned, told in ((False, "no: unpinned rows"), (True, None)):
        summary = run.summary()
        data = {"bench": {"revision": "97dd", "pinned": pinned}}
        manifest = summary.manifest.extended(data=data)
        run.write_summary(replace(summary, manifest=manifest))
        junit_prompts.write([run], path)
        assert properties(path)["data_revision"] == "97dd"
        assert properties(path).get("data_pinned") == told


def test_several_candidates_have_suites_of_their_own(tmp_path: Path) -> None:
    runs = [
        finished(tmp_path / name, records("R C"), AT_LEAST, name=f"org/{name}")
        for name in "ab"
    ]
    path = tmp_path / "reports" / "new" / "report.xml"
    junit_prompts.write(runs, path)
    schema().validate(str(path))
    found = JUnitXml.fromfile(str(path))
    assert [suite.name for suite in found] == ["bench.org/a", "bench.org/b"]
    assert len({(case.classname, case.name) for suite in found for case in suite}) == 4
    assert (found.tests, found.failures) == (4, 2)


@given(text=HOSTILE | st.text(st.characters(exclude_categories=()), max_size=50))
def test_whatever_models_say_the_file_is_valid(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, said = (
        tmp_path_factory.mktemp("run"),
        text.encode("utf-8", "replace").decode(),
    )
    prompt = Prompt.single(said or "p", said, category=said)
    record = Record(prompt, 0, Completion(said), Binary(Label.COMPLIANCE, None, said))
    path = folder / "report.xml"
    junit_prompts.write([finished(folder, [record], AT_LEAST, name=said)], path)
    (case,) = cases(path).values()
    assert isinstance(case.result[0], Failure)


def test_many_cases_share_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [
        replace(r, completion=Completion("word " * 5000)) for r in records("C " * 200)
    ]
    run, path = finished(tmp_path, long, AT_LEAST), tmp_path / "report.xml"
    junit_prompts.write([run], path)
    assert path.stat().st_size < 200 * (4 * junit_prompts.CASE + 500)
    monkeypatch.setattr(junit_prompts, "ALL", 10_000)
    junit_prompts.write([run], path)
    assert path.stat().st_size < 10_000 * 4 + 200 * 500
