"""Judges read one answer and give a verdict, or say why there is none.

Each module of ``kinds`` is a way of judging that a benchmark can name (``Benchmark.judge``). It
defines ``build(setup)`` and, where the defaults of ``JudgeKind`` do not hold, ``VERDICTS`` and
``JUDGES_REFUSAL``. Nothing else is edited to add one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.verdicts import Binary
from refusal_checks.judges import kinds
from refusal_checks.judges.base import JudgeKind


@cache
def discover() -> dict[str, JudgeKind]:
    """Every way of judging by name."""
    found: dict[str, JudgeKind] = {}
    for name in (info.name for info in iter_modules(kinds.__path__)):
        module = import_module(f"{kinds.__name__}.{name}")
        verdicts = getattr(module, "VERDICTS", Binary)
        judges_refusal = getattr(module, "JUDGES_REFUSAL", False)
        found[name] = JudgeKind(name, module.build, verdicts, judges_refusal)
    assert sum(kind.judges_refusal for kind in found.values()) == 1, "the canary is of one kind"
    return found


def kind_of(benchmark: Benchmark) -> JudgeKind:
    """How a benchmark's answers are judged.

    Raises:
        DataError: the benchmark names an unknown way of judging.
    """
    known = discover()
    require_known(
        benchmark.judge, known, f"benchmark {benchmark.name}", "way of judging", DataError
    )
    return known[benchmark.judge]
