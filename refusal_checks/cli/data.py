"""``refusal-checks data``: local mirrors of public data."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, discover, hub, mirror_index
from refusal_checks.cli._common import add_group, echo
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.text import sanitize
from refusal_checks.results.redact import is_redacted
from refusal_checks.results.run_folder import require_writable

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the mirror.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--benchmark", help="Pull only this benchmark (repeatable)."),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--thresholds", help="Pull only this run file's benchmarks (repeatable)."
    ),
]


def add(app: typer.Typer) -> None:
    about = "Mirror public data for machines without a network."
    add_group(app, "data", about, {"pull": pull})


def pull(folder: Folder, benchmark: Names = None, thresholds: Files = None) -> None:
    """Download the benchmarks' data into DIR, for --data DIR or REFUSAL_CHECKS_DATA=DIR."""
    require_writable(folder, "data pull")
    failed = []
    selected = _selected(benchmark, thresholds)
    if not selected:
        echo("nothing to pull: these benchmarks need no public data")
    for public in selected:
        try:
            with hub.no_cached_copy(is_redacted()):
                entry = mirror_index.pull(public, folder)
        except DataError as fault:
            failed.append(public.name)
            echo(sanitize(f"FAILED   {public.name}: {fault}", 1000), err=True)
            continue
        echo(f"pulled   {public.name}: {entry.prompts} prompts, sha256 {entry.sha256}")
    if failed:
        raise DataError(f"could not pull: {', '.join(failed)}")


def _selected(
    names: Iterable[str] | None, files: Iterable[Path] | None
) -> list[Benchmark]:
    catalogue = discover()
    chosen = list(names or ())
    if files:
        spec = RunSpec.read(*files)
        catalogue = dict(spec.catalogue())
        chosen += spec.evaluated
    for name in chosen:
        require_known(name, catalogue, "--benchmark", "benchmark", DataError)
    are_named = bool(names or files)
    benchmarks = [
        catalogue[name] for name in dict.fromkeys(chosen if are_named else catalogue)
    ]
    public = [benchmark for benchmark in benchmarks if benchmark.resources]
    gated = [benchmark.name for benchmark in public if benchmark.is_gated]
    if are_named or not gated:
        return public
    echo(
        f"SKIPPED  {', '.join(gated)}: to fetch this gated data, accept its conditions, then name "
        "it with --benchmark"
    )
    return [benchmark for benchmark in public if not benchmark.is_gated]
