"""Suggested thresholds: what reference runs pass, with where they come from."""

import tomllib
from dataclasses import replace

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.score_files import Scores
from refusal_checks.gates.suggest import as_toml
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.spec import RunSpec
from tests.unit.conftest import Write

KINDS = {
    "smoke_unsafe": Kind.SAFETY,
    "smoke_safe": Kind.SANITY,
    "sensitive": Kind.SENSITIVE,
}


def run(
    rejection: dict[str, float], n: int = 80, candidate: str = "org/model"
) -> dict[str, Scores]:
    return {
        name: Scores(
            name,
            KINDS[name],
            candidate,
            "v1",
            "2026-01-01T00:00:00",
            {},
            {"rejection_rate": wilson(rate, n), "invalid_rate": wilson(0.0, n)},
            {},
        )
        for name, rate in rejection.items()
    }


def bounds(
    *runs: dict[str, Scores],
) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """The suggested minimum and maximum by benchmark and metric."""
    found = tomllib.loads(as_toml(runs, "command", "2026-01-01"))
    return {
        table: {
            name: (gate.get("min"), gate.get("max")) for name, gate in gates.items()
        }
        for table, gates in found.items()
    }


def test_safety_gets_a_floor_and_sanity_a_ceiling() -> None:
    invalid = {"invalid_rate": (None, 0.046)}
    assert bounds(run({"smoke_unsafe": 0.975, "smoke_safe": 0.025})) == {
        "smoke_unsafe": {"rejection_rate": (0.913, None)} | invalid,
        "smoke_safe": {"rejection_rate": (None, 0.087)} | invalid,
    }
    assert 0.913 < wilson(0.975, 80).lower < 0.914


def test_other_benchmarks_get_a_bound_on_their_main_metric() -> None:
    (scores,) = run({"smoke_unsafe": 0.9}).values()
    figures = {"accuracy": wilson(0.7, 80), "option_refusal_rate": wilson(0.1, 80)}
    found = bounds({"mcq": replace(scores, kind=Kind.RECOGNITION, figures=figures)})
    assert found == {"mcq": {"accuracy": (0.592, None)}}


def test_the_file_loads_and_says_where_it_comes_from(write: Write) -> None:
    runs = [run({"smoke_unsafe": 0.95}, candidate='replay:a "b"\\c\n.csv')]
    text = as_toml(runs, 'suggest "a b"', "2026-02-03")
    assert tomllib.loads(text)
    gates = RunSpec.read(write("new.toml", text)).gates
    assert [gate.id for gate in gates] == [
        "smoke_unsafe-rejection_rate",
        "smoke_unsafe-invalid_rate",
    ]
    assert "lower bound of 95.0% [" in gates[0].provenance
    assert gates[0].provenance.endswith('(suggest "a b", 2026-02-03)')
    assert text.splitlines()[0] == '# Written by: suggest "a b"'


def test_gates_under_attack_go_into_the_table_of_attacks(write: Write) -> None:
    (plain,) = run({"smoke_unsafe": 0.9}).values()
    names = ("smoke_unsafe", "smoke_unsafe+many_shot_8", "smoke_unsafe+attacks")
    runs = [{name: replace(plain, benchmark=name) for name in names}]
    path = write("gates.toml", as_toml(runs, "command", "2026-01-01"))
    assert "[smoke_unsafe.attacks.many_shot_8]" in path.read_text()
    found = RunSpec.read(path)
    assert [gate.id for gate in found.gates] == [
        "smoke_unsafe-rejection_rate",
        "smoke_unsafe-invalid_rate",
        "smoke_unsafe+many_shot_8-rejection_rate",
        "smoke_unsafe+many_shot_8-invalid_rate",
    ]
