"""Benchmarks whose prompts are the rows of one pinned file, CSV or Parquet."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.io.data_files import read_columns


def table_benchmark(
    name: str,
    kind: Kind,
    description: str,
    file: PinnedFile,
    text: str,
    groups: Mapping[str, str],
    *,
    context: str = "",
    ids: str = "",
    prefix: str | None = None,
    only: Sequence[str] = (),
    judge: str = Benchmark.judge,
) -> Benchmark:
    """Make a benchmark whose prompts are the rows of a file.

    Args:
        text: the column with the prompts.
        groups: column by kind of group.
        context: the column with text that precedes a prompt; its cells may be empty.
        ids: the column with the second half of each prompt's id; by default the row's place from 0.
        prefix: the first half of each id; by default the benchmark's name and a hyphen.
        only: a column, and the value that rows must have there.
    """
    stem = f"{name}-" if prefix is None else prefix
    columns = [text, *groups.values()]
    columns += [column for column in (context, ids, *only[:1]) if column]

    def load(mirror: Path | None) -> list[Prompt]:
        prompts = []
        for number, row in enumerate(read_columns(fetch(file, mirror), columns)):
            if only and row[only[0]] != only[1]:
                continue
            request = row[text]
            before = row[context].strip() if context else ""
            if before:
                request = f"{before}\n\n---\n\n{request}"
            own = {group: str(row[column]) for group, column in groups.items()}
            # The row's place in the whole file, so that a part of it has the ids of the whole.
            place = row[ids] if ids else number
            prompts.append(Prompt.single(f"{stem}{place}", request, **own))
        return prompts

    return Benchmark(name, kind, description, load, file.revision, judge, (file,))
