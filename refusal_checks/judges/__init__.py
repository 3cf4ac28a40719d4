"""Judges read one answer and give a verdict, or say why there is none.

Each module of ``kinds``, and each extension with ``build``, is a way of judging that a benchmark
can name (``Benchmark.judge``). It defines ``build(setup)`` and, where the defaults of ``JudgeKind``
do not hold, ``VERDICTS``; of this package also ``JUDGES_REFUSAL``.
"""

from collections.abc import Mapping
from functools import cache

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.extensions import OWN, Extension
from refusal_checks.core.verdicts import Binary
from refusal_checks.judges import kinds
from refusal_checks.judges.judge import JudgeKind


def discover() -> dict[str, JudgeKind]:
    """Every way of judging of this package and of extensions by name."""
    return dict(_discover(extensions.known()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, JudgeKind]:
    names = extensions.Names("ways of judging")
    found: dict[str, JudgeKind] = {}
    for one in extensions.providers(kinds.__name__, kinds.__path__, "build"):
        names.add(one.name, one.origin)
        verdicts = getattr(one.module, "VERDICTS", Binary)
        # Calibrations are of one kind: no extension can take its place.
        judges_refusal = one.origin == OWN and getattr(
            one.module, "JUDGES_REFUSAL", False
        )
        found[one.name] = JudgeKind(
            one.name, one.module.build, verdicts, judges_refusal
        )
    return found


def kind_of(benchmark: Benchmark) -> JudgeKind:
    known = discover()
    require_known(
        benchmark.judge,
        known,
        f"benchmark {benchmark.name}",
        "way of judging",
        DataError,
    )
    return known[benchmark.judge]
