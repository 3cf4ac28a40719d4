"""Benchmarks. Each module of ``suites``, and each extension, adds its ``BENCHMARKS``."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from refusal_checks.benchmarks import suites
from refusal_checks.benchmarks.attacks import Attacked, derived
from refusal_checks.benchmarks.benchmark import Benchmark, digest, load_prompts
from refusal_checks.benchmarks.custom import custom
from refusal_checks.core import extensions
from refusal_checks.core.extensions import Extension, ExtensionError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.settings import BenchmarkTable

__all__ = [
    "Benchmark",
    "Kind",
    "catalogue",
    "digest",
    "discover",
    "display_order",
    "load_prompts",
]


def discover() -> dict[str, Benchmark]:
    """Every benchmark of this package and of extensions by name. Reads no data."""
    return dict(_discover(extensions.known()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, Benchmark]:
    names = extensions.Names("benchmarks")
    known: dict[str, Benchmark] = {}
    for one in extensions.providers(suites.__name__, suites.__path__, "BENCHMARKS"):
        for benchmark in getattr(one.module, "BENCHMARKS", ()):
            if not isinstance(benchmark, Benchmark):
                raise ExtensionError(
                    f"extension {one.origin}: BENCHMARKS must hold Benchmark values, not "
                    f"{type(benchmark).__name__}"
                )
            names.add(benchmark.name, one.origin)
            known[benchmark.name] = benchmark
    return known


def catalogue(
    tables: Mapping[str, BenchmarkTable], attacked: Attacked = MappingProxyType({})
) -> dict[str, Benchmark]:
    """Every benchmark that run files can name: known ones, the user's own, attacked ones."""
    own = {name: custom(name, table) for name, table in tables.items() if table.is_own}
    known = discover() | own
    known |= {
        name: _changed(known[name], tables[name]) for name in tables if name in known
    }
    under = {one.name: one for one in derived(known, attacked)}
    return known | {
        name: _changed(one, tables.get(name)) for name, one in under.items()
    }


def display_order(benchmark: str, groups: Iterable[str]) -> list[str]:
    """A benchmark's groups as its suite orders them, then the others as they come."""
    known = discover().get(benchmark)
    order = known.group_order if known else ()
    return sorted(
        groups, key=lambda group: order.index(group) if group in order else len(order)
    )


def _changed(benchmark: Benchmark, table: BenchmarkTable | None) -> Benchmark:
    if table is None:
        return benchmark
    original = benchmark.original and _changed(benchmark.original, table)
    sha256, judge = table.sha256 or benchmark.sha256, table.judge or benchmark.judge
    return replace(benchmark, sha256=sha256, judge=judge, original=original)
