"""Benchmarks. Each module of ``suites``, and each extension, adds its ``BENCHMARKS``."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from refusal_checks.benchmarks import suites
from refusal_checks.benchmarks.benchmark import Benchmark, digest, load_prompts
from refusal_checks.benchmarks.custom import custom_benchmark
from refusal_checks.core.prompts import Kind
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.io import extensions
from refusal_checks.io.extensions import Extension, ExtensionError

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
    """Every benchmark of this package and of extensions, by name. Reads no data."""
    return dict(_discover(extensions.load_all()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, Benchmark]:
    names = extensions.UniqueNames("benchmarks")
    benchmarks: dict[str, Benchmark] = {}
    providers = extensions.providers(suites.__name__, suites.__path__, "BENCHMARKS")
    for provider in providers:
        for benchmark in getattr(provider.module, "BENCHMARKS", ()):
            if not isinstance(benchmark, Benchmark):
                raise ExtensionError(
                    f"extension {provider.origin}: BENCHMARKS must hold Benchmark values, not "
                    f"{type(benchmark).__name__}"
                )
            names.add(benchmark.name, provider.origin)
            benchmarks[benchmark.name] = benchmark
    return benchmarks


def catalogue(tables: Mapping[str, BenchmarkTable]) -> dict[str, Benchmark]:
    """Every benchmark that run files can name: known ones and the user's own."""
    benchmarks = discover()
    for name, table in tables.items():
        if table.is_own:
            benchmarks[name] = custom_benchmark(name, table)
        if name in benchmarks:
            benchmarks[name] = _apply_table(benchmarks[name], table)
    return benchmarks


def display_order(benchmark: str, groups: Iterable[str]) -> list[str]:
    """A benchmark's groups in its suite's order, then the others in their given order."""
    suite = discover().get(benchmark)
    order = suite.group_order if suite else ()

    def place(group: str) -> int:
        return order.index(group) if group in order else len(order)

    return sorted(groups, key=place)


def _apply_table(benchmark: Benchmark, table: BenchmarkTable) -> Benchmark:
    original = benchmark.original and _apply_table(benchmark.original, table)
    sha256, judge = table.sha256 or benchmark.sha256, table.judge or benchmark.judge
    return replace(benchmark, sha256=sha256, judge=judge, original=original)
