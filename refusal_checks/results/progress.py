"""How far an evaluation has come: counted by the thread that evaluates, read by any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid


@dataclass
class Count:
    """One benchmark's prompts and answers so far.

    Attributes:
        planned: prompts to evaluate.
        answered: prompts whose answers are there, stored ones too.
        judged: prompts whose answers all have their judgement.
        answers: judgements so far, those without a verdict included.
        invalid: answers without a verdict so far.
        done: whether the benchmark is complete; with early stopping it may be so before all
            prompts are judged.
    """

    planned: int = 0
    answered: int = 0
    judged: int = 0
    answers: int = 0
    invalid: int = 0
    done: bool = False


@dataclass
class Progress:
    """Counts by benchmark, in the order of the plan; only ever grows.

    Attributes:
        phase: what is going on, in a few words, for example ``starting vLLM``.
        tokens: how many the servers have generated so far; 0 where they do not say.
    """

    benchmarks: dict[str, Count] = field(default_factory=dict)
    phase: str = ""
    tokens: Callable[[], int] = lambda: 0

    def plan(self, sizes: Mapping[str, int]) -> None:
        """Take up benchmarks with so many prompts each."""
        for name, size in sizes.items():
            self.benchmarks[name] = Count(planned=size)

    def answered(self, benchmark: str) -> None:
        """Count one more prompt that is answered."""
        self.benchmarks[benchmark].answered += 1

    def judged(self, benchmark: str, records: Sequence[Record]) -> None:
        """Count one more prompt whose answers are all judged."""
        count = self.benchmarks[benchmark]
        count.judged += 1
        count.answers += len(records)
        count.invalid += sum(isinstance(record.judgement, Invalid) for record in records)

    def finished(self, benchmark: str) -> None:
        """Mark a benchmark as complete."""
        self.benchmarks[benchmark].done = True
