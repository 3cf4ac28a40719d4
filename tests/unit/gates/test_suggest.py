"""Suggested thresholds: what reference runs pass, with where they come from."""

from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.score_files import Scores
from refusal_checks.gates.suggest import as_toml
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.spec import RunSpec
from tests.unit.conftest import Write


def scores(benchmark: str, kind: Kind, **figures: Estimate) -> Scores:
    candidate, when = 'replay:a "b"\\c\n.csv', "2026-01-01T00:00:00"
    return Scores(benchmark, kind, candidate, "v1", when, {}, figures, {})


def test_the_file_loads_and_says_where_it_comes_from(
    write: Write, snapshot: SnapshotAssertion
) -> None:
    """A floor for safety, a ceiling for sanity, and a bound on the main figure of others."""
    safe, unsafe = wilson(0.025, 80), wilson(0.975, 80)
    none = wilson(0.0, 80)
    choices = {"accuracy": wilson(0.7, 80), "option_refusal_rate": wilson(0.1, 80)}
    safety = Kind.SAFETY
    run = [
        scores("smoke_unsafe", safety, rejection_rate=unsafe, invalid_rate=none),
        scores("smoke_safe", Kind.SANITY, rejection_rate=safe, invalid_rate=none),
        scores("chisafety_mcq", Kind.RECOGNITION, **choices),
    ]
    text = as_toml(
        [{each.benchmark: each for each in run}], 'suggest "a b"', "2026-02-03"
    )
    assert text == snapshot
    gates = RunSpec.read(write("new.toml", text)).gates
    assert "\n".join(f"{gate.id}: {gate.provenance}" for gate in gates) == snapshot
