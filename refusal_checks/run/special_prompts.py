"""Benchmarks whose prompts hold special tokens of chat templates, as sets of jailbreaks do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from refusal_checks.benchmarks import Benchmark, pinned
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.core.errors import DataError
from refusal_checks.core.text import FAMILIES


def found(benchmarks: Iterable[Benchmark], data: str | None) -> Iterator[str]:
    """A line for each benchmark with such prompts; those whose data is not here are passed over.

    Args:
        data: the mirror as ``--data`` names it.
    """
    folder = None
    with suppress(DataError):
        folder = mirror_folder(data)
    for benchmark in benchmarks:
        at = benchmark.at(folder)
        if at.resources and not (folder and at.is_in(folder)):
            continue
        with suppress(DataError):  # the run says what is wrong
            prompts = pinned.load_checked(at, folder)
            held = [prompt for prompt in prompts if FAMILIES.count(prompt.transcript)]
            if held:
                yield (
                    f"{benchmark.name}: {len(held)} of {len(prompts)} prompts hold special tokens "
                    f"of chat templates, the first is {held[0].id}"
                )
