"""Judges: each reads one answer and gives a verdict, or says why there is none.

Each module of ``kinds``, and each extension with ``build``, is a way of judging that a benchmark
can name (``Benchmark.judge``). It defines ``build(setup)`` and, where the defaults of ``JudgeKind``
do not hold, ``JUDGEMENT``; of this package also ``CRITERION``.
"""

from collections.abc import Mapping
from functools import cache

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.judgements import Binary
from refusal_checks.io import extensions
from refusal_checks.io.extensions import OWN, Extension
from refusal_checks.judges import kinds
from refusal_checks.judges.judge import JudgeKind


def discover() -> dict[str, JudgeKind]:
    """Every way of judging, of this package and of extensions, by name."""
    return dict(_discover(extensions.load_all()))


@cache
def _discover(loaded: tuple[Extension, ...]) -> Mapping[str, JudgeKind]:
    names = extensions.UniqueNames("ways of judging")
    by_name: dict[str, JudgeKind] = {}
    for provider in extensions.providers(kinds.__name__, kinds.__path__, "build"):
        names.add(provider.name, provider.origin)
        module = provider.module
        # No extension can take the place of the kind that judges refusal.
        is_own = provider.origin == OWN
        by_name[provider.name] = JudgeKind(
            provider.name,
            module.build,
            getattr(module, "JUDGEMENT", Binary),
            getattr(module, "CRITERION", None) if is_own else None,
        )
    return by_name


def kind_of(benchmark: Benchmark) -> JudgeKind:
    """The way of judging that a benchmark names; DataError if it is unknown."""
    by_name = discover()
    require_known(
        benchmark.judge,
        by_name,
        f"benchmark {benchmark.name}",
        "way of judging",
        DataError,
    )
    return by_name[benchmark.judge]
