"""Add a benchmark's outcomes to the run's summary, and write its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.files import write_lines
from refusal_checks.core.labelling import PEOPLE
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.evaluation.benchmark_figures import (
    Scores,
    figures_of,
    margin_remark,
    truncation_remarks,
)
from refusal_checks.evaluation.decider import Decided
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.gates import score_files
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.judges.trust.agreement import Compared, agreements, compared
from refusal_checks.metrics import score_all
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.results import answers, histograms
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.manifest import conditions
from refusal_checks.results.redact import Redaction
from refusal_checks.results.run_folder import RECORDS, RunFolder
from refusal_checks.results.summary import RunSummary, balance, distinct


@dataclass(frozen=True)
class BenchmarkFiles:
    """Writes the files of each benchmark in a run's folder.

    Attributes:
        keys: gives the store keys of a prompt's answers.
    """

    folder: Path
    redaction: Redaction
    keys: Callable[[Prompt], Sequence[str]]

    def write(
        self,
        benchmark: GatedBenchmark,
        summary: RunSummary,
        records: Sequence[Record],
        scores: Scores,
    ) -> None:
        name, figures = benchmark.name, summary.benchmarks[benchmark.name]
        shown = self.redaction.records(records)
        files = summary.files
        written = RunFolder(self.folder).write_records(name, shown)
        files[f"{RECORDS}/{name}.jsonl"] = written
        if len(benchmark.judges) > 1:
            path = self.folder / answers.DISAGREEMENTS / f"{name}.jsonl"
            files[f"{answers.DISAGREEMENTS}/{name}.jsonl"] = write_lines(
                path, answers.disagreements(name, shown)
            )
        confidences = list(scores[mean_refusal_confidence.name].values())
        if confidences:
            histogram = histograms.histogram(name, figures.kind, confidences)
            written = histograms.write(self.folder, summary.manifest.shown, histogram)
            files[f"{histograms.FOLDER}/{name}.json"] = written

        prompts = score_files.score_prompts(records, scores, self.keys)
        own = _scores_for_baselines(benchmark, summary, figures)
        path = self.folder / score_files.FOLDER / f"{name}.json"
        written = write_lines(path, score_files.parts(own, prompts))
        files[f"{score_files.FOLDER}/{name}.json"] = written


def _scores_for_baselines(
    benchmark: GatedBenchmark,
    summary: RunSummary,
    figures: BenchmarkSummary,
) -> score_files.Scores:
    """Scores for later runs to compare with, without the prompts."""
    manifest = summary.manifest
    return score_files.Scores(
        benchmark=benchmark.name,
        kind=benchmark.definition.kind,
        candidate=manifest.candidate,
        version=manifest.models.candidate.version,
        started=manifest.started,
        conditions=conditions(manifest, benchmark.name),
        figures=figures.figures,
        prompts={},
        title=manifest.title,
        bounds={gate.id: gate.bounds for gate in benchmark.gates},
    )


class Publisher:
    """Publishes the outcomes of each benchmark once.

    Args:
        gates: the run's gates, in order.
        level: confidence level of intervals.
        max_tokens: the most that the candidate may write for one answer.
        published: called with the gates whose outcomes are now in the summary.
    """

    def __init__(
        self,
        benchmarks: Mapping[str, GatedBenchmark],
        gates: Sequence[Gate],
        summary: RunSummary,
        files: BenchmarkFiles,
        *,
        level: float,
        max_tokens: int | None,
        published: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._benchmarks = benchmarks
        self._gates = gates
        self._summary = summary
        self._files = files
        self._level = level
        self._max_tokens = max_tokens
        self._published = published
        self._compared: dict[tuple[str, int], Compared] = {}
        self._done: set[str] = set()

    def is_done(self, benchmark: str) -> bool:
        return benchmark in self._done

    def publish(self, name: str, records: Sequence[Record], decided: Decided) -> None:
        """Publish the outcomes of a complete benchmark and write its files.

        Args:
            records: the records decided on, perhaps with reasons that a judge added since.
        """
        benchmark, redaction = self._benchmarks[name], self._files.redaction
        records = redaction.judged(records)
        scores = score_all(records)
        check = benchmark.check(self._summary.judge)
        figures = figures_of(benchmark, records, scores, self._level, check)
        self._summary.benchmarks[name] = figures
        verdicts = {
            gate: outcome
            for gate, outcome in decided.items()
            if isinstance(outcome, Verdict)
        }
        self._note(benchmark, records)
        self._compare(benchmark, records)
        remark = margin_remark(name, verdicts.values(), check)
        if remark:
            self._summary.note(remark)
        self._files.write(benchmark, self._summary, records, scores)
        self.publish_outcomes(name, decided)

    def publish_outcomes(self, name: str, decided: Decided) -> None:
        """Publish only a benchmark's verdicts, or why there are none."""
        redact = self._files.redaction.verdict
        for gate, outcome in decided.items():
            if isinstance(outcome, Verdict):
                self._summary.verdicts[gate] = redact(outcome)
            else:
                self._summary.errors[gate] = str(outcome)
        # Benchmarks end in any order: gates keep theirs.
        verdicts = self._summary.verdicts
        self._summary.verdicts = {
            gate.id: verdicts[gate.id] for gate in self._gates if gate.id in verdicts
        }
        self._update_totals()
        self._done.add(name)
        self._published(self._benchmarks[name].ids)

    def _note(self, benchmark: GatedBenchmark, records: Sequence[Record]) -> None:
        """Note limits that made answers invalid, and verdicts that could not be read."""
        judges = benchmark.judges
        written = max((judge.max_tokens for judge in judges), default=0)
        end = self._summary.manifest.models.candidate.reasoning_end
        for line in truncation_remarks(records, self._max_tokens, written, end):
            self._summary.note(f"{benchmark.name}: {line}")
        if not self._files.redaction.is_on:
            forms = [judge.expected for judge in judges]
            self._summary.note_unread(records, forms)

    def _compare(self, benchmark: GatedBenchmark, records: Sequence[Record]) -> None:
        """Compare verdicts with people's labels in a recording, unless these are the verdicts."""
        judges = benchmark.judges
        repeats = any(isinstance(judge, LabelsJudge) for judge in judges)
        if self._summary.manifest.labelled_by == PEOPLE and not repeats:
            # A prompt of several benchmarks counts once.
            self._compared |= compared(records, judges[0].partial)
            self._summary.agreement = agreements(self._compared.values(), self._level)

    def _update_totals(self) -> None:
        """Update the summary's totals over all benchmarks."""
        summary = self._summary
        apart = distinct(summary.benchmarks).values()
        pairs = [(figures.kind, figures.figures) for figures in apart]
        summary.balance = balance(pairs, self._level)
