"""``refusal-checks data``: local mirrors of public data."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, digest, discover, hub, pinned
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
    for wanted in _selected(benchmark, thresholds):
        try:
            with hub.leaving_no_copy(is_redacted()):
                entry = pinned.pull(wanted, folder)
        except DataError as fault:
            failed.append(wanted.name)
            echo(clean(f"FAILED   {wanted.name}: {fault}", 1000), err=True)
            continue
        echo(f"pulled   {wanted.name}: {entry.prompts} prompts, sha256 {entry.sha256}")
    if failed:
        raise DataError(f"could not be pulled: {', '.join(failed)}")


def verify(folder: Folder, benchmark: Names = None, thresholds: Files = None) -> None:
    """Check that DIR holds every benchmark, in the pinned revision and unchanged.

    Data whose digest does not come with this package is only proven by the mirror's own index.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; name one that `data pull` filled")
    failed = []
    for found in _selected(benchmark, thresholds):
        here = found.at(folder)
        if not here.is_in(folder):
            failed.append(found.name)
            echo(f"MISSING  {found.name}", err=True)
            continue
        try:
            prompts = pinned.load_checked(here, folder)
        except DataError as fault:
            failed.append(found.name)
            echo(clean(f"WRONG    {found.name}: {fault}", 1000), err=True)
            continue
        whole = f"{found.name}: {len(prompts)} prompts, revision {here.revision}"
        # Anybody who wrote the mirror may have chosen such rows.
        unpinned = (
            "unpinned rows: no digest of them comes with this package. Compare with a mirror that "
            f'you pulled yourself, then write sha256 = "{digest(prompts)}" into [{here.name}] of a '
            "run file"
        )
        if here.is_pinned:
            echo(f"OK       {whole}")
        elif here.name in pinned.read_index(folder):
            echo(f"OK       {whole}, as it was pulled; {unpinned}")
        else:
            failed.append(found.name)
            echo(f"UNPROVEN {whole}? {unpinned}", err=True)
    if failed:
        raise DataError(f"missing, wrong or unproven: {', '.join(failed)}")


def _selected(
    names: Iterable[str] | None, files: Iterable[Path] | None
) -> list[Benchmark]:
    known = discover()
    wanted = list(names or ())
    if files:
        read = RunSpec.read(*files)
        known = dict(read.catalogue())
        wanted += [name for name in read.benchmarks if known[name].resources]
    for name in wanted:
        require_known(name, known, "--benchmark", "benchmark", DataError)
    public = [
        known[name] for name in dict.fromkeys(wanted or known) if known[name].resources
    ]
    gated = [found.name for found in public if found.is_gated]
    if wanted or not gated:
        return public
    echo(
        f"SKIPPED  {', '.join(gated)}: accept their conditions, then name them with --benchmark: "
        "gated data is not fetched otherwise"
    )
    return [found for found in public if not found.is_gated]
