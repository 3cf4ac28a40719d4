"""What a benchmark's table in a threshold file says besides its gates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_checks import judges
from refusal_checks.benchmarks import Benchmark, Kind
from refusal_checks.benchmarks.custom import KINDS
from refusal_checks.core.errors import ThresholdError, require_known
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.verdicts import Chosen, Valid
from refusal_checks.metrics import METRICS

FOR_ANY = frozenset({"sha256", "limit", "max_answer_chars", "judge"})
"""Keys of ``BenchmarkTable`` that also apply to the package's own benchmarks."""

_OLD_JUDGES = {"options": "multiple_choice"}


def read(
    parsed: Mapping[Path, Mapping[str, Any]],
    benchmarks: Mapping[str, Benchmark],
    notes: list[str],
) -> dict[str, BenchmarkTable]:
    """What all files say about benchmarks besides gates; later files win key by key.

    Raises:
        ThresholdError: a value is wrong, or is not for this benchmark.
    """
    merged: dict[str, dict[str, Any]] = {}
    for path, content in parsed.items():
        for name, table in content.items():
            where = f"{path}: [{name}]"
            values = {k: v for k, v in require_table(table, where).items() if is_data(k, v)}
            BenchmarkTable.read(values, where, ThresholdError)
            if name in benchmarks and (own := sorted(values.keys() - FOR_ANY)):
                raise ThresholdError(
                    f"{where} {own[0]}: this benchmark brings its own data; give yours another name"
                )
            for key in ("file", "rubric"):
                if key in values:
                    values[key] = str(path.parent / values[key])
            if new := _OLD_JUDGES.get(values.get("judge", "")):
                old, values["judge"] = values["judge"], new
                notes.append(f'{where}: rename judge "{old}" to "{new}"; the old name still works')
            merged.setdefault(name, {}).update(values)
    return {name: BenchmarkTable(**values) for name, values in merged.items()}


def require_table(table: Any, where: str) -> dict[str, Any]:
    """The table; raises ThresholdError if it is none."""
    if not isinstance(table, dict):
        raise ThresholdError(f"{where}: must be a table")
    return table


def is_data(key: str, value: Any) -> bool:
    """True if a key of a benchmark's table is not about gates.

    ``category`` and ``cluster`` can be either: a column, or a kind of group.
    """
    return key in BenchmarkTable.model_fields and not (
        key in ("category", "cluster") and isinstance(value, dict)
    )


def holds_groups(key: str, value: Any) -> bool:
    """True if a key of a benchmark's table is a kind of group, whose groups have gates."""
    if key in METRICS or not isinstance(value, dict) or not value:
        return False
    return all(isinstance(group, dict) for group in value.values())


def verdicts(where: str, table: BenchmarkTable, benchmark: Benchmark | None) -> type[Valid]:
    """The verdicts of a benchmark's way of judging, which decide its metrics.

    Args:
        benchmark: None for one that the table defines.
    """
    kinds = judges.discover()
    plain = "multiple_choice" if table.options else Benchmark.judge
    own = benchmark.judge if benchmark else plain
    name = table.judge or own
    require_known(name, kinds, f"{where} judge", "way of judging")
    found = kinds[name].verdicts
    if found is Chosen and (own not in kinds or kinds[own].verdicts is not Chosen):
        raise ThresholdError(
            f'{where} judge = "{name}": choose another way of judging; this one is for '
            "multiple-choice questions, and the prompts have no options"
        )
    return found


def metrics(
    where: str, table: BenchmarkTable, benchmark: Benchmark | None
) -> tuple[list[str], type[Valid]]:
    """Names of a benchmark's metrics, and its verdicts.

    They are of any kind of benchmark if the file does not say of which it is.

    Args:
        benchmark: None for one that the table defines.
    """
    reads = verdicts(where, table, benchmark)
    kind: Kind | None = benchmark.kind if benchmark else KINDS.get(table.expect or "")
    names = [
        metric.name
        for metric in METRICS.values()
        if reads in metric.reads and (kind is None or kind in metric.kinds)
    ]
    return names, reads
