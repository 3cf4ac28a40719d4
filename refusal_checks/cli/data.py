"""``refusal-checks data``: local mirrors of public data."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, digest, discover, hub, mirror_index
from refusal_checks.cli._common import add_group, echo
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.text import clean
from refusal_checks.results.redact import is_redacted
from refusal_checks.spec import RunSpec

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the mirror.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--benchmark", help="Only this benchmark (repeatable)."),
]
Files = Annotated[
    list[Path] | None,
    typer.Option("--thresholds", help="Only benchmarks of this run file (repeatable)."),
]


def add(app: typer.Typer) -> None:
    about = "Mirror public data for machines without a network."
    add_group(app, "data", about, {"pull": pull, "verify": verify})


def pull(folder: Folder, benchmark: Names = None, thresholds: Files = None) -> None:
    """Download the benchmarks' data into DIR, for --data DIR or REFUSAL_CHECKS_DATA=DIR."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for public in _selected(benchmark, thresholds):
        try:
            with hub.leaving_no_copy(is_redacted()):
                entry = mirror_index.pull(public, folder)
        except DataError as fault:
            failed.append(public.name)
            echo(clean(f"FAILED   {public.name}: {fault}", 1000), err=True)
            continue
        echo(f"pulled   {public.name}: {entry.prompts} prompts, sha256 {entry.sha256}")
    if failed:
        raise DataError(f"could not be pulled: {', '.join(failed)}")


def verify(folder: Folder, benchmark: Names = None, thresholds: Files = None) -> None:
    """Check that DIR holds every benchmark, in the pinned revision and unchanged.

    Data whose digest does not come with this package is only proven by the mirror's own index.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; name one that `data pull` filled")
    failed = []
    for public in _selected(benchmark, thresholds):
        if not _is_proven(public.at(folder), folder):
            failed.append(public.name)
    if failed:
        raise DataError(f"missing, wrong or unproven: {', '.join(failed)}")


def _is_proven(benchmark: Benchmark, folder: Path) -> bool:
    """Print whether a mirror has a benchmark unchanged; True if a published digest proves it."""
    if not benchmark.is_in(folder):
        echo(f"MISSING  {benchmark.name}", err=True)
        return False
    try:
        prompts = mirror_index.load_checked(benchmark, folder)
    except DataError as fault:
        echo(clean(f"WRONG    {benchmark.name}: {fault}", 1000), err=True)
        return False
    whole = f"{benchmark.name}: {len(prompts)} prompts, revision {benchmark.revision}"
    if benchmark.is_pinned:
        echo(f"OK       {whole}")
        return True
    # Anybody who wrote the mirror may have chosen such rows.
    unpinned = (
        "unpinned rows: no digest of them comes with this package. Compare with a mirror that you "
        f'pulled yourself, then write sha256 = "{digest(prompts)}" into [{benchmark.name}] of a '
        "run file"
    )
    if benchmark.name in mirror_index.read_index(folder):
        echo(f"OK       {whole}, as it was pulled; {unpinned}")
        return True
    echo(f"UNPROVEN {whole}? {unpinned}", err=True)
    return False


def _selected(
    names: Iterable[str] | None, files: Iterable[Path] | None
) -> list[Benchmark]:
    catalogue = discover()
    chosen = list(names or ())
    if files:
        spec = RunSpec.read(*files)
        catalogue = dict(spec.catalogue())
        chosen += [name for name in spec.benchmarks if catalogue[name].resources]
    for name in chosen:
        require_known(name, catalogue, "--benchmark", "benchmark", DataError)
    benchmarks = [catalogue[name] for name in dict.fromkeys(chosen or catalogue)]
    public = [benchmark for benchmark in benchmarks if benchmark.resources]
    gated = [benchmark.name for benchmark in public if benchmark.is_gated]
    if chosen or not gated:
        return public
    echo(
        f"SKIPPED  {', '.join(gated)}: accept their conditions, then name them with --benchmark: "
        "gated data is not fetched otherwise"
    )
    return [benchmark for benchmark in public if not benchmark.is_gated]
