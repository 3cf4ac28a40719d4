"""Release gates on the refusal behaviour of language models, as a pytest run.

``__all__`` lists the public interface; each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refusal_checks.benchmarks.base import Benchmark
    from refusal_checks.core.errors import DataError, UserError
    from refusal_checks.core.files import write_text
    from refusal_checks.core.prompts import Prompt
    from refusal_checks.core.text import clean, placeless, without_credentials
    from refusal_checks.gates.decide import Verdict
    from refusal_checks.gates.explain import mark, sentence
    from refusal_checks.gates.gate import Gate
    from refusal_checks.judges.base import Judge
    from refusal_checks.metrics.base import Metric
    from refusal_checks.results.run_folder import RunFolder
    from refusal_checks.results.shipping import shipping
    from refusal_checks.results.summary import RunSummary

__version__ = "0.2.0"

__all__ = [
    "Benchmark",
    "DataError",
    "Gate",
    "Judge",
    "Metric",
    "Prompt",
    "RunFolder",
    "RunSummary",
    "UserError",
    "Verdict",
    "__version__",
    "clean",
    "load_run",
    "mark",
    "placeless",
    "sentence",
    "shipping",
    "without_credentials",
    "write_text",
]

_MODULES = {
    "Benchmark": "benchmarks.base",
    "DataError": "core.errors",
    "Gate": "gates.gate",
    "Judge": "judges.base",
    "Metric": "metrics.base",
    "Prompt": "core.prompts",
    "RunFolder": "results.run_folder",
    "RunSummary": "results.summary",
    "UserError": "core.errors",
    "Verdict": "gates.decide",
    "clean": "core.text",
    "mark": "gates.explain",
    "placeless": "core.text",
    "sentence": "gates.explain",
    "shipping": "results.shipping",
    "without_credentials": "core.text",
    "write_text": "core.files",
}


def load_run(
    name: str | PathLike[str] = "last", runs: str | PathLike[str] | None = None
) -> RunFolder:
    """Open a finished run: its ``summary()``, ``gates``, ``records(benchmark)`` and ``frame()``.

    Args:
        name: ``last``, its id or the start of one, its folder or its ``summary.json``.
        runs: the folder that holds the runs; None for the one that the pytest configuration here
            or ``$REFUSAL_CHECKS_RUNS`` names, else ``.refusal-checks/runs``.

    Raises:
        DataError: there is no such run.
    """
    from os import fspath
    from pathlib import Path

    from refusal_checks.results import run_folder

    return run_folder.find(fspath(name), run_folder.usual_root() if runs is None else Path(runs))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
