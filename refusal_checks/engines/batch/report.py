"""The report on a round of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from refusal_checks.core.text import clean
from refusal_checks.engines.batch.inbox import Reading
from refusal_checks.engines.batch.stand_in import Written


@dataclass(frozen=True)
class Report:
    """The outcome of a round.

    Attributes:
        reading: the lines of the result files.
        left: counts of ``Results.clear``.
        unfit: results that do not answer their request.
        waiting: requests without a result.
        written: the batch files.
        notes: facts that the user must know about the answers.
    """

    reading: Reading
    left: Mapping[str, int]
    unfit: int
    waiting: int
    written: tuple[Written, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report for people."""
        return [*self._imported(), *self._exported(), *self.notes]

    def _imported(self) -> Iterator[str]:
        if not self.reading.counts:
            return
        counts = self.reading.counts
        yield f"{counts.total()} result lines: " + ", ".join(
            f"{counts[name]} {name}" for name in ("answered", "failed", "malformed", "duplicate")
        )
        yield from (f"  for example {clean(words, 300)}" for words in self.reading.examples)
        yield f"{self.left['used'] - self.unfit} results were used"
        if self.unfit:
            yield (
                f"{self.unfit} results have another number of answers than was asked for, are "
                "broken off or malformed, or lack the log-probabilities"
            )
        if self.left["kept"]:
            yield f"{self.left['kept']} results are verdicts that cannot be read"
        if self.left["unasked"]:
            yield (
                f"{self.left['unasked']} results answer no pending request: they are stored "
                "already, or other options made those requests"
            )

    def _exported(self) -> Iterator[str]:
        if not self.waiting:
            yield "no request is pending: the gates can be decided"
        elif not self.written:
            yield f"{self.waiting} requests are pending: write them with --batch-export FILE"
        for file in self.written:
            models = ", ".join(file.models)
            yield f"{file.requests} requests written to {file.path} ({_size(file.size)}): {models}"
            yield f"  {file.command or 'for the batch API of that server'}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
