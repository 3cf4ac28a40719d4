"""Progress of an evaluation: counted by the thread that evaluates, read by any other."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.gate import Gate
from refusal_checks.results.redact import Redaction
from refusal_checks.results.summary import RunSummary


@dataclass
class Count:
    """One benchmark's prompts (planned, answered, judged) and its answers so far.

    Stored answers count; ``invalid`` are answers without a verdict. A benchmark that is ``done``
    may have prompts without judgements, because of early stopping.
    """

    planned: int = 0
    answered: int = 0
    judged: int = 0
    answers: int = 0
    invalid: int = 0
    done: bool = False


@dataclass
class Progress:
    benchmarks: dict[str, Count] = field(default_factory=dict)
    phase: str = ""  # the current step in a few words, for example starting vLLM
    # tokens that the servers have generated so far; 0 if they do not report them
    tokens: Callable[[], int] = lambda: 0
    # is told of each judged prompt, by benchmark, and with no records of each benchmark that begins
    listener: Callable[[str, Sequence[Record]], None] = lambda benchmark, records: None

    def plan(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            self.benchmarks[name] = Count(planned=size)
            self.listener(name, ())

    def leave_out(self, names: Collection[str]) -> None:
        # Other threads may be going through the old ones.
        self.benchmarks = {n: count for n, count in self.benchmarks.items() if n not in names}

    def answered(self, benchmark: str) -> None:
        self.benchmarks[benchmark].answered += 1

    def judged(self, benchmark: str, records: Sequence[Record]) -> None:
        count = self.benchmarks[benchmark]
        count.judged += 1
        count.answers += len(records)
        count.invalid += sum(isinstance(record.judgement, Invalid) for record in records)
        self.listener(benchmark, records)

    def finished(self, benchmark: str) -> None:
        self.benchmarks[benchmark].done = True


@dataclass(frozen=True)
class Underway:
    """A run in progress, for those who show it; other threads fill summary and progress."""

    folder: Path
    summary: RunSummary
    progress: Progress
    planned: Mapping[str, int]  # prompts to evaluate, by benchmark
    gates: Sequence[Gate]
    level: float  # confidence level of intervals
    redaction: Redaction
    has_ended: Callable[[], bool]
