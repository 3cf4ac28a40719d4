"""``refusal-checks baseline accept``."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from refusal_checks.cli import application
from refusal_checks.core.errors import BaselineError
from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.gates import score_files
from refusal_checks.gates.gate import Gate
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.support.deciding import decide
from tests.support.report_runs import manifest_of, seal
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

REFUSED = Record(Prompt.single("p", "?"), 0, Completion("No."), Binary(Label.REFUSAL))
GATES = (
    Gate("smoke_unsafe", "invalid_rate", max=0.5),
    Gate("smoke_unsafe", "rejection_rate", max=0.5),
)


def call(*args: str | Path) -> Result:
    return CliRunner().invoke(
        application(), [str(arg) for arg in args], catch_exceptions=False
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a finished run of one benchmark, one of whose gates failed."""
    folder = tmp_path / "run"
    (folder / "scores").mkdir(parents=True)
    scores = scores_of(records("RR C-"), "smoke_unsafe")
    (folder / "scores" / "smoke_unsafe.json").write_text(score_files.dump(scores))
    write_summary(folder)
    return folder


def write_summary(
    folder: Path, failure: str = "", gates: Sequence[Gate] = GATES
) -> None:
    RunFolder(folder).write_summary(
        RunSummary(
            manifest_of("smoke_unsafe"),
            benchmarks={"smoke_unsafe": BenchmarkSummary(2, 2, {}, {}, {}, planned=2)},
            verdicts={gate.id: decide(gate, [REFUSED]) for gate in gates},
            failure=failure,
        )
    )
    seal(folder)


def test_a_run_is_accepted_as_one_file_a_benchmark_and_others_stay(
    run: Path, tmp_path: Path
) -> None:
    target = tmp_path / "base"
    target.mkdir()
    (target / "other.json").write_text("kept")
    found = call("baseline", "accept", run, target)
    assert found.exit_code == 0
    assert "2 prompts of org/model" in found.output
    assert "note: that run's answer was No: 1 of 2 gates failed" in found.output
    written = score_files.read(target / "smoke_unsafe.json")
    own = score_files.read(run / "scores" / "smoke_unsafe.json")
    assert written == own
    assert (target / "other.json").read_text() == "kept"


def test_what_is_no_whole_run_is_not_accepted(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "base"
    for facts, said in (
        ({"failure": "the engine died"}, "the engine died"),
        ({"gates": ()}, "this one has no verdict on any gate"),
    ):
        write_summary(run, **facts)
        with pytest.raises(BaselineError, match=said):
            call("baseline", "accept", run, target)
    assert not target.exists()
