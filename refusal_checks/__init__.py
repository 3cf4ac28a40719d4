"""Release gates on the refusal behaviour of language models, as a function and as pytest tests.

``__all__`` is the public interface; each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from refusal_checks.version import __version__

if TYPE_CHECKING:
    from refusal_checks.api.evaluate import evaluate as evaluate
    from refusal_checks.api.result import RunResult as RunResult
    from refusal_checks.benchmarks.benchmark import Benchmark as Benchmark
    from refusal_checks.config.run_spec import RunSpec as RunSpec
    from refusal_checks.core.errors import DataError as DataError
    from refusal_checks.core.errors import UserError as UserError
    from refusal_checks.core.prompts import Prompt as Prompt
    from refusal_checks.core.redaction import redact_paths as redact_paths
    from refusal_checks.core.redaction import strip_credentials as strip_credentials
    from refusal_checks.core.text import sanitize as sanitize
    from refusal_checks.gates.gate import Gate as Gate
    from refusal_checks.gates.requirements import requirement as requirement
    from refusal_checks.gates.verdict import Verdict as Verdict
    from refusal_checks.io.files import write_text as write_text
    from refusal_checks.judges.judge import Judge as Judge
    from refusal_checks.metrics.metric import Metric as Metric
    from refusal_checks.results.run_folder import RunFolder as RunFolder
    from refusal_checks.results.summary import RunSummary as RunSummary
    from refusal_checks.wording.gate_sentences import mark as mark
    from refusal_checks.wording.gate_sentences import sentence as sentence
    from refusal_checks.wording.release import (
        release_decision as release_decision,
    )

_MODULES = {
    "Benchmark": "benchmarks.benchmark",
    "DataError": "core.errors",
    "Gate": "gates.gate",
    "Judge": "judges.judge",
    "Metric": "metrics.metric",
    "Prompt": "core.prompts",
    "RunFolder": "results.run_folder",
    "RunResult": "api.result",
    "RunSpec": "config.run_spec",
    "RunSummary": "results.summary",
    "UserError": "core.errors",
    "Verdict": "gates.verdict",
    "evaluate": "api.evaluate",
    "mark": "wording.gate_sentences",
    "redact_paths": "core.redaction",
    "release_decision": "wording.release",
    "requirement": "gates.requirements",
    "sanitize": "core.text",
    "sentence": "wording.gate_sentences",
    "strip_credentials": "core.redaction",
    "write_text": "io.files",
}

__all__ = ["__version__", "load_run", *_MODULES]


def load_run(
    name: str | PathLike[str] = "last", runs: str | PathLike[str] | None = None
) -> RunResult:
    """Load the result of a run as ``evaluate`` returned it, or what a killed run got done.

    Args:
        name: ``last``, an id or the start of one, a run's folder or its ``summary.json``.
        runs: the folder of all runs; by default the one in the pytest configuration, else
            ``$REFUSAL_CHECKS_RUNS``, else ``.refusal-checks/runs``.

    Raises:
        DataError: there is no such run, or its files have changed since they were written.
        UserError: the name is neither a string nor a path.
    """
    from os import fspath
    from pathlib import Path

    from refusal_checks.api.result import RunResult
    from refusal_checks.core.errors import UserError
    from refusal_checks.results import project, run_folder

    if not isinstance(name, str | PathLike):
        raise UserError(
            f'load_run: give "last", an id or a folder in place of {name!r:.80}'
        )
    root = project.default_runs_folder() if runs is None else Path(runs)
    return RunResult.load(run_folder.find_run(fspath(name), root).summary_file)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
