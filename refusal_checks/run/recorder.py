"""Write what a run finds: the only writer of its summary, its records and its events.

Stages return values. What is written comes in an order in which a kill loses nothing: a prompt's
records are in the journal once they are judged, those of a complete benchmark in a file of their
own before the summary names it, and all of it is there before the journal goes.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from refusal_checks.core.errors import DataError, EvaluationError, reason
from refusal_checks.core.records import Record
from refusal_checks.gates import score_files
from refusal_checks.gates.verdict import Verdict
from refusal_checks.io.files import write_lines
from refusal_checks.results import answer_rows
from refusal_checks.results.events import (
    Decided,
    Ended,
    Judged,
    Listener,
    Notice,
    Prepared,
    Progress,
)
from refusal_checks.results.execution import Execution
from refusal_checks.results.journal import Journal
from refusal_checks.results.manifest import conditions
from refusal_checks.results.run_folder import RECORDS, RunFolder
from refusal_checks.results.summary import (
    JUDGE_QUOTED,
    RunSummary,
    balance,
    without_parts,
)
from refusal_checks.run.run_session import RunSession
from refusal_checks.run.stages.check import CheckResult
from refusal_checks.run.stages.decide import BenchmarkFindings
from refusal_checks.run.start_report import StartReport
from refusal_checks.trust.agreement import LabelPair, measure_agreement
from refusal_checks.wording.release import summary_texts


class Recorder:
    """Keeps the summary of a run, writes its folder, and tells a listener."""

    def __init__(self, session: RunSession, tell: Listener) -> None:
        self.folder = RunFolder(session.folder)
        self.summary = RunSummary(session.manifest)
        self.progress = Progress(tokens=self._output_tokens)
        self._servers = session.servers
        self._redaction = session.inputs.redaction
        self._benchmarks = session.benchmarks
        self._gates = session.inputs.gates
        self._keys = session.task.candidate.keys
        self._tell = tell
        self._journal = Journal(self.folder)
        self._compared: dict[tuple[str, int], LabelPair] = {}
        self._done: set[str] = set()
        self._is_check_due = True
        for line in session.notes:
            self.note(line)
        for name, why in session.untested.items():
            if session.benchmarks[name].kind.judgement_type.scale:
                self.summary.untested_scales[name] = why
            else:
                self.summary.untested = why

    @property
    def prepared(self) -> Prepared:
        candidate = self.summary.manifest.candidate
        return Prepared(self.folder.path, candidate, self._gates, self.progress)

    @property
    def is_complete(self) -> bool:
        """True if the judges' check and all gates have an outcome."""
        return not self._is_check_due and self._done >= self._benchmarks.keys()

    def is_done(self, benchmark: str) -> bool:
        return benchmark in self._done

    def say(self, text: str) -> None:
        self._tell(Notice(text))

    def note(self, line: str) -> None:
        if line not in self.summary.notes:
            self.summary.notes.append(line)

    def begin(self, report: StartReport, judge_idle: str) -> None:
        """Write what is known before the run starts.

        Args:
            judge_idle: why the judges are not checked; empty if they are.

        Raises:
            UserError: the folder cannot be written, or another run has it.
        """
        for line in report.notes:
            self.note(line)
        for line in report.says:
            self.say(line)
        self.summary.execution = self._with_account(report.execution)
        self.summary.unverified = report.unverified
        self.summary.judge_idle = judge_idle
        self._is_check_due = not judge_idle
        # Before anything is asked: from here on, a killed run can be read.
        self.folder.begin(self._shown())

    def _output_tokens(self) -> int:
        tokens = self._servers.usage_report().get("tokens", {})
        return sum(role["output"] for role in tokens.values())

    def record_prompt(self, benchmark: str, records: Sequence[Record]) -> None:
        """Keep a judged prompt's records; without records, its benchmark begins."""
        shown = self._redaction.records(records)
        self._journal.add(benchmark, shown)
        self._tell(Judged(benchmark, shown, self.progress.benchmarks[benchmark]))

    def record_check(self, found: CheckResult) -> None:
        """Record the check of the judges, or why it has no result."""
        self._is_check_due = False
        self._quote(found.quote)
        faults = found.faults.values()
        if faults:
            self.summary.judge_error = "; ".join(fault.advice for fault in faults)
            self.summary.unusable += [
                fault.advice for fault in faults if fault.is_public
            ]
        elif found.finished_check:
            self.summary.judge = self._redaction.check(found.finished_check)

    def record_findings(self, found: BenchmarkFindings) -> None:
        """Record a complete benchmark, write its files, and publish its outcomes."""
        summary, name = self.summary, found.benchmark
        summary.benchmarks[name] = found.summary
        if found.confirmed:
            summary.labels[name] = found.confirmed
        for line in found.notes:
            self.note(line)
        self._quote(found.quote)
        # A prompt of several benchmarks counts once.
        self._compared |= found.compared
        level = summary.manifest.spec.settings.confidence
        if self._compared:
            summary.agreement = measure_agreement(self._compared.values(), level)
        # The files come before the summary that names them. After a kill between the two, the
        # figures are computed again from the records.
        self._write(found)
        apart = without_parts(summary.benchmarks).values()
        pairs = [(figures.kind, figures.figures) for figures in apart]
        summary.balance = balance(pairs, level)
        self._publish(name, found.outcomes)

    def record_undecided(self, benchmark: str, why: str) -> None:
        """Record why a benchmark has no outcome."""
        self.progress.leave_out([benchmark])  # else its bar would never fill
        ids = self._benchmarks[benchmark].ids
        self._publish(benchmark, dict.fromkeys(ids, EvaluationError(why)))

    def _publish(
        self, benchmark: str, outcomes: Mapping[str, Verdict | EvaluationError]
    ) -> None:
        summary = self.summary
        for gate_id, outcome in outcomes.items():
            if isinstance(outcome, Verdict):
                summary.verdicts[gate_id] = self._redaction.verdict(outcome)
            else:
                summary.errors[gate_id] = str(outcome)
        # Benchmarks end in any order: gates keep theirs.
        verdicts = summary.verdicts
        summary.verdicts = {
            gate.id: verdicts[gate.id] for gate in self._gates if gate.id in verdicts
        }
        self._done.add(benchmark)
        # Only now does the journal lose its records: those of the benchmark have their own file.
        self._journal.publish(self._shown, summary.benchmarks)
        self._tell(Decided(self._benchmarks[benchmark].ids))

    def _with_account(self, execution: Execution, **facts: Any) -> Execution:
        """Add the servers' counts and facts so far, and other facts."""
        account = self._servers.usage_report()
        known = Execution.model_validate(dict(execution) | account | facts)
        return self._redaction.execution(known)

    def _shown(self) -> RunSummary:
        return self._redaction.summary(self.summary)

    def _quote(self, line: str) -> None:
        """Put a note that quotes a judge at the top; one is enough."""
        notes = self.summary.notes
        is_first = not any(note.startswith(JUDGE_QUOTED) for note in notes)
        if line and is_first and not self._redaction.is_on:
            notes.insert(0, line)

    def _write(self, found: BenchmarkFindings) -> None:
        """Write the files of a complete benchmark."""
        name, folder, files = found.benchmark, self.folder, self.summary.files
        benchmark, manifest = self._benchmarks[name], self.summary.manifest
        records = self._redaction.records(found.records)
        files[f"{RECORDS}/{name}.jsonl"] = folder.write_records(name, records)
        if len(benchmark.judges) > 1:
            file = f"{answer_rows.DISAGREEMENTS}/{name}.jsonl"
            lines = answer_rows.disagreements(name, records)
            files[file] = write_lines(folder.path / file, lines)
        own = score_files.Scores(
            benchmark=name,
            kind=benchmark.definition.kind,
            candidate=manifest.candidate,
            version=manifest.models.candidate.version,
            started=manifest.started,
            conditions=conditions(manifest, name),
            figures=found.summary.figures,
            prompts={},
            title=manifest.title,
            bounds={gate.id: gate.bounds for gate in benchmark.gates},
        )
        prompts = score_files.score_prompts(found.records, found.scores, self._keys)
        file = f"{score_files.FOLDER}/{name}.json"
        lines = score_files.text_parts(own, prompts)
        files[file] = write_lines(folder.path / file, lines)

    def record_failure(self, fault: BaseException) -> None:
        """Record why the run ended early, unless it had decided everything."""
        if not self.is_complete:
            self.summary.failure = self._redaction.reason(fault)

    def finish(self, seconds: float | None) -> None:
        """Write the summary of a run whose engines have stopped.

        Args:
            seconds: how long the evaluation took; None if it never began.
        """
        self._journal.close()
        summary = self.summary
        summary.manifest = self._redaction.manifest(summary.manifest)
        summary.execution = self._with_account(
            summary.execution,
            seconds=seconds,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if not summary.failure:  # no fault, but not complete: it was cancelled
            self.record_failure(CancelledError())
        if summary.failure:
            # What was judged is kept and named, so that nobody takes a part for the whole.
            try:
                benchmarks, files = self.folder.partial_benchmarks(summary.manifest)
                summary.benchmarks |= benchmarks
                summary.files |= files
                summary.unfinished = bool(files)
            except (OSError, DataError) as fault:
                self.note(f"partial records were not kept: {reason(fault)}")
        try:
            shown = self._shown()
            self.folder.write_summary(shown, summary_texts(shown))
        except OSError as fault:
            self.note(f"no summary was written: {reason(fault)}")
        self._tell(Ended(self.summary.manifest.candidate))
