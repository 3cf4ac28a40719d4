"""Events of an evaluation in progress, for listeners.

Events arrive one at a time and in order. Notices come from any thread, all others from the thread
that evaluates. Any thread may read the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refusal_checks.core.judgements import Invalid
from refusal_checks.core.records import Record
from refusal_checks.core.text import sanitize, sanitize_lines
from refusal_checks.gates.gate import Gate


@dataclass
class BenchmarkProgress:
    """Progress of one benchmark: its prompts by stage, and answers so far, stored ones included.

    ``invalid`` counts answers without a verdict.
    """

    planned: int = 0
    begun: int = 0
    answered: int = 0
    judged: int = 0
    answers: int = 0
    invalid: int = 0
    done: bool = False


@dataclass
class Progress:
    benchmarks: dict[str, BenchmarkProgress] = field(default_factory=dict)
    phase: str = ""  # the current step in a few words, for example starting vLLM
    # tokens that the servers have generated so far; 0 if they do not report them
    tokens: Callable[[], int] = lambda: 0

    def plan(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            self.benchmarks[name] = BenchmarkProgress(planned=size)

    def leave_out(self, names: Collection[str]) -> None:
        # Replaced, not changed: other threads may be iterating over the old dictionary.
        self.benchmarks = {
            name: count for name, count in self.benchmarks.items() if name not in names
        }

    def count_begun(self, benchmark: str) -> None:
        self.benchmarks[benchmark].begun += 1

    def count_answered(self, benchmark: str) -> None:
        self.benchmarks[benchmark].answered += 1

    def count_judged(self, benchmark: str, records: Sequence[Record]) -> None:
        count = self.benchmarks[benchmark]
        count.judged += 1
        count.answers += len(records)
        for record in records:
            if isinstance(record.judgement, Invalid):
                count.invalid += 1

    def count_finished(self, benchmark: str) -> None:
        self.benchmarks[benchmark].done = True


@dataclass(frozen=True)
class Notice:
    """A line for people: what happens next, or what they should know."""

    text: str

    def __str__(self) -> str:
        return sanitize_lines(self.text)


@dataclass(frozen=True)
class Prepared:
    """Everything the run needs has been read and checked; nothing has started.

    Attributes:
        candidate: as messages name it.
        progress: by benchmark, updated during the run.
    """

    folder: Path
    candidate: str
    gates: Sequence[Gate]
    progress: Progress

    def __str__(self) -> str:
        return f"prepared: {sanitize(self.candidate)}"


@dataclass(frozen=True)
class Judged:
    """A prompt was judged. Without records, its benchmark starts, perhaps over again."""

    benchmark: str
    records: Sequence[Record]
    done: BenchmarkProgress

    def __str__(self) -> str:
        count = self.done
        return f"{self.benchmark}: {count.judged} of {count.planned} prompts judged"


@dataclass(frozen=True)
class Decided:
    """Gates of a benchmark have a verdict or an error."""

    gates: tuple[str, ...]

    def __str__(self) -> str:
        return f"decided: {sanitize(', '.join(self.gates), 500)}"


@dataclass(frozen=True)
class Ended:
    """The evaluation has ended, and its summary is written."""

    candidate: str

    def __str__(self) -> str:
        return f"ended: {sanitize(self.candidate)}"


Event = Notice | Prepared | Judged | Decided | Ended
Listener = Callable[[Event], None]
