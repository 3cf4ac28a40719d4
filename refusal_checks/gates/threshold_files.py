"""Threshold files: TOML in, gates out.

A file holds one table per benchmark. A key is a metric, its value the bounds; a sub-table
``KIND.GROUP`` bounds one group of the benchmark's prompts::

    [xstest_unsafe]
    rejection_rate = { min = 0.80 }

    [xstest_unsafe.category.contrast_privacy]
    rejection_rate = { min = 0.70, max_drop = 0.05 }

Three tables are not benchmarks: ``[sampling]`` (how answers are drawn; the command line wins),
``[settings]``, and ``[judge]`` (floors of the judge on the canary). Of several files the later
wins, gate by gate; ``metric = false`` removes a gate, and ``metric = { waive = ... }`` lets the
gate of another table fail for some time. A benchmark's table may also say where its
data is and how it is judged (``BenchmarkTable``), and name attacks (``attack_tables``).
``extensions`` names Python files whose benchmarks, attacks, judges and metrics it uses
(``core.extensions``); reading the file runs their code.

Unless its table says otherwise, a benchmark has a gate on ``invalid_rate`` (at most 2%), and one of
the user's own with ``expect`` also a gate on ``rejection_rate``. A group with a gate of its own has
its benchmark's gate on ``invalid_rate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.benchmarks.attacked import Attacked
from refusal_checks.core import extensions
from refusal_checks.core.errors import ThresholdError
from refusal_checks.core.extensions import ExtensionError
from refusal_checks.core.settings import BenchmarkTable, Frozen, Sampling
from refusal_checks.gates import (
    attack_tables,
    benchmark_tables,
    default_gates,
    table_names,
    toml_file,
    waiver,
    written_bounds,
)
from refusal_checks.gates.bounds import GateSettings
from refusal_checks.gates.default_gates import FileBounds
from refusal_checks.gates.gate import Gate, GateKey, as_gate
from refusal_checks.gates.waiver import Waiver
from refusal_checks.gates.written_bounds import Written
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.metrics.judging import invalid_rate

_SHARED: Mapping[str, type[Frozen]] = {
    "sampling": Sampling,
    "settings": GateSettings,
    "judge": JudgeFloors,
}
"""The tables that are not benchmarks."""

EXTENSIONS = "extensions"
"""The key of a file, above its tables, that names Python files to import."""


@dataclass(frozen=True)
class Thresholds:
    """The threshold files of a run, merged.

    Attributes:
        sampling: only the keys that a file sets.
        tables: what the benchmarks' tables say besides gates, by benchmark.
        judge: floors of the judge; None if no file has such a table.
        notes: what the user should know of the files, for the run's notes.
        attacked: names of the attacks on each benchmark.
    """

    gates: tuple[Gate, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    settings: GateSettings = field(default_factory=GateSettings)
    tables: Mapping[str, BenchmarkTable] = field(default_factory=dict)
    judge: JudgeFloors | None = None
    notes: tuple[str, ...] = ()
    attacked: Attacked = field(default_factory=dict)


def load(
    paths: Sequence[Path], benchmarks: Mapping[str, Benchmark], day: date | None = None
) -> Thresholds:
    """Read and merge threshold files; later files win.

    Args:
        benchmarks: the package's, by name.
        day: from which waivers are dated; None for today.

    Raises:
        ThresholdError: names the file, the table, the key, and the nearest valid name.
    """
    parsed = {path: toml_file.read(path) for path in paths}
    if _take_extensions(parsed):
        benchmarks = {**benchmarks, **discover()}
    notes: list[str] = []
    shared = _shared(parsed, notes)
    under = attack_tables.read(parsed)
    tables = under.shared(benchmark_tables.read(under.files, benchmarks, notes))
    bounds: dict[GateKey, FileBounds | None] = {}
    waivers: dict[GateKey, Waiver] = {}
    for path, content in under.files.items():
        for name, table in content.items():
            where, plain = f"{path}: [{name}]", under.plain.get(name, name)
            if not tables[plain].is_own:
                table_names.require_benchmark(where, plain, table, (benchmarks, _SHARED))
            about = tables[plain].model_copy(update={"judge": tables[name].judge})
            known, verdicts = benchmark_tables.metrics(where, about, benchmarks.get(plain))
            known = under.metrics(name, known, verdicts)
            if under.stands_for_all(name):  # its answers have such a gate by attack
                bounds[name, invalid_rate.name, None, None] = None
            written = _benchmark_gates(path, name, table, known)
            bounds |= written_bounds.without_waivers(written, waivers)
    settings = GateSettings(**shared.get("settings", {}))
    merged = default_gates.of_benchmarks(bounds, tables)
    gates = [as_gate(key, *value, settings) for key, value in merged.items() if value]
    _require_unique_ids(gates)
    gates = list(default_gates.of_groups(gates, merged.keys(), notes))
    decided = written_bounds.with_waivers(gates, waivers, day or waiver.today())
    floors = JudgeFloors(**shared["judge"]) if "judge" in shared else None
    return Thresholds(
        decided,
        shared.get("sampling", {}),
        settings,
        tables,
        floors,
        tuple(notes),
        under.attacked,
    )


def load_extensions(paths: Iterable[Path]) -> None:
    """Import the extensions that threshold files name, and read no more of these.

    Raises:
        ThresholdError: a file cannot be read, or an extension cannot be imported.
    """
    _take_extensions({path: toml_file.read(path) for path in paths})


def _take_extensions(parsed: Mapping[Path, dict[str, Any]]) -> bool:
    """Import the files that ``extensions`` names, which is taken out; True if there are any."""
    named = {path: content.pop(EXTENSIONS, []) for path, content in parsed.items()}
    for path, names in named.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ThresholdError(f'{path}: {EXTENSIONS}: write a list of files: ["gates/own.py"]')
        for name in names:
            try:
                extensions.load_file(path.parent, name)
            except ExtensionError as fault:
                raise ThresholdError(f"{path}: {EXTENSIONS}: {fault}") from fault
    return any(named.values())


def _shared(parsed: Mapping[Path, dict[str, Any]], notes: list[str]) -> dict[str, dict[str, Any]]:
    """The tables that are not benchmarks, taken out of the files; later files win key by key."""
    merged: dict[str, dict[str, Any]] = {}
    for path, content in parsed.items():
        for name in (name for name in _SHARED if name in content):
            where = f"{path}: [{name}]"
            table = benchmark_tables.require_table(content.pop(name), where)
            if name == "settings":
                table = _with_new_names(table, where, notes)
            merged[name] = merged.get(name, {}) | table
            _SHARED[name].read(merged[name], where, ThresholdError)
    return merged


def _with_new_names(table: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """The settings with today's name of the key ``correction``."""
    if "correction" in table:
        if "multiple_testing" in table:
            raise ThresholdError(
                f"{where}: remove correction: it is the old name of multiple_testing, also given"
            )
        notes.append(f"{where}: rename correction to multiple_testing; the old name still works")
    return {"multiple_testing" if key == "correction" else key: table[key] for key in table}


def _benchmark_gates(
    path: Path, benchmark: str, table: Mapping[str, Any], known: Sequence[str]
) -> Written:
    written = (item for item in table.items() if not benchmark_tables.is_data(*item))
    keys = (item for key, value in written for item in _gate_keys(benchmark, key, value))
    return {key: written_bounds.read(path, key, value, known) for key, value in keys}


def _gate_keys(benchmark: str, key: str, value: Any) -> Iterator[tuple[GateKey, Any]]:
    """The gates that a key defines: one by a metric's name, several by a kind of group."""
    if not benchmark_tables.holds_groups(key, value):
        yield (benchmark, key, None, None), value
        return
    for group, metrics in value.items():
        for metric, bounds in metrics.items():
            yield (benchmark, metric, key, group), bounds


def _require_unique_ids(gates: Sequence[Gate]) -> None:
    seen: dict[str, Gate] = {}
    for gate in gates:
        other = seen.setdefault(gate.id, gate)
        if other is not gate:
            raise ThresholdError(
                f"{gate.source}: two gates have the id {gate.id}: groups "
                f"{other.group_kind}.{other.group} and {gate.group_kind}.{gate.group}; keep one"
            )
