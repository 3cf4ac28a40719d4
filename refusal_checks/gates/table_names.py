"""Names in a threshold file that nothing has: which was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_checks.core.errors import ThresholdError, require_known
from refusal_checks.core.mistakes import near
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.gates.gate import GateKey
from refusal_checks.metrics import METRICS

_DATA = ("file", "dataset")
"""The keys of which a benchmark of the user's own needs one."""


def require_benchmark(
    where: str, name: str, table: Mapping[str, Any], known: tuple[Iterable[str], Iterable[str]]
) -> None:
    """Refuse a table that is no benchmark's.

    Args:
        known: benchmarks, and the tables that are not about a benchmark.

    Raises:
        ThresholdError: names the nearest benchmark or table, or the key that is misspelt.
    """
    benchmarks, others = map(set, known)
    if name in benchmarks:
        return
    if other := near(name, others, 0.75):
        raise ThresholdError(f"{where}: no such table{other}")
    for key in table.keys() - BenchmarkTable.model_fields.keys() - METRICS.keys():
        if found := near(key, _DATA):
            raise ThresholdError(
                f'{where}: no benchmark "{name}", and one of your own needs file or dataset: no '
                f'such key "{key}"{found}'
            )
    require_known(name, benchmarks, where, "benchmark")


def require_metric(where: str, key: GateKey, value: Any, known: Sequence[str]) -> None:
    """Refuse a key of a benchmark's table that is no metric.

    Args:
        known: the benchmark's metrics.

    Raises:
        ThresholdError: names the nearest metric or other key.
    """
    benchmark, name, kind, _ = key
    is_setting = kind is None and not isinstance(value, Mapping | bool)
    if is_setting and name not in METRICS and not near(name, known):
        fields = sorted(BenchmarkTable.model_fields)
        raise ThresholdError(
            f"{where}: no such key{near(name, fields)} (known: metrics, {', '.join(fields)})"
        )
    require_known(name, known, where, f"{benchmark} metric")
