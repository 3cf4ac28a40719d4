"""What becomes of a benchmark's records: figures, verdicts, and files in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.files import write_text
from refusal_checks.core.records import Record
from refusal_checks.gates import baseline
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.early_stopping import EarlyStopping
from refusal_checks.gates.finding import Rules, expected_breaches, select
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.judge_noise import noise
from refusal_checks.gates.verdict import Verdict, decide_all
from refusal_checks.judges.trust.check import JudgeCheck
from refusal_checks.metrics import METRICS, score_all
from refusal_checks.results import disagreements
from refusal_checks.results.board import Board, JudgeOutcome, Published
from refusal_checks.results.redact import Redaction
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import BenchmarkSummary, RunSummary, balance, summarise
from refusal_checks.run import comparability
from refusal_checks.run.assembly import Parts
from refusal_checks.run.options.command_line import Options


class Publisher:
    """Decides the gates of complete benchmarks; publishes them, and fills the run's summary.

    Args:
        gates: the selected gates.
        earlier: the benchmarks' earlier runs, where there are any.
        early: decides by what was seen where a benchmark was stopped.
    """

    def __init__(
        self,
        options: Options,
        gates: Sequence[Gate],
        parts: Parts,
        rules: Rules,
        earlier: Mapping[str, Earlier],
        early: EarlyStopping | None,
        board: Board,
        summary: RunSummary,
    ) -> None:
        self._options = options
        self._gates = gates
        self._parts = parts
        self._rules = rules
        self._earlier = earlier
        self._early = early
        self._board = board
        self._summary = summary
        self._redaction = Redaction(options.redact)

    def judge_checked(self, check: JudgeCheck) -> None:
        """Publish how the judge did on its own check."""
        shown = self._redaction.check(check)
        self._board.post_judge(JudgeOutcome(shown))
        self._summary.judge = shown

    def undecided(self, benchmark: str, reason: str) -> None:
        """Publish why a benchmark's gates have no verdict."""
        fault = EvaluationError(reason)
        gates = [gate.id for gate in self._gates if gate.benchmark == benchmark]
        self._publish(benchmark, dict.fromkeys(gates, fault))

    def finished(
        self, benchmark: str, records: Sequence[Record], repeats: Sequence[Sequence[Record]] = ()
    ) -> None:
        """Decide the gates of a benchmark that is complete.

        Args:
            repeats: what the judges said of the same answers the other times.
        """
        records = self._redaction.judged(records)
        scores, prompts = score_all(records), self._parts.plan[benchmark]
        kind = self._options.benchmarks[benchmark].kind.value
        summary = summarise(records, self._rules.level, scores, len(prompts), kind)
        self._summary.benchmarks[benchmark] = summary
        self._write(benchmark, records, summary, scores)
        if self._options.trust.labels:
            self._summary.note(self._options.trust.labels.found(benchmark, records))
        self._summary.balance = balance(
            [(found.kind, found.figures) for found in self._summary.benchmarks.values()],
            self._rules.level,
        )
        gates = [gate for gate in self._gates if gate.benchmark == benchmark]
        stopped = self._early and summary.prompts < summary.planned
        found = decide_all(
            gates,
            records,
            self._rules,
            self._earlier.get(benchmark),
            self._early.estimate if self._early and stopped else None,
        )
        noted = {id: self._with_noise(said, records, repeats) for id, said in found.items()}
        self._publish(benchmark, noted)
        self._order()

    def _write(
        self,
        benchmark: str,
        records: Sequence[Record],
        summary: BenchmarkSummary,
        scores: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Write what the run's folder keeps of a benchmark."""
        folder, prompts = self._board.folder, self._parts.plan[benchmark]
        shown = self._redaction.records(records)
        RunFolder(folder).write_records(benchmark, shown)
        if len(self._parts.judges[benchmark]) > 1:
            disagreements.append(folder, benchmark, shown)
        keys = {prompt.id: self._parts.candidate.keys(prompt) for prompt in prompts}
        scored = comparability.scores(
            self._summary.manifest,
            self._options.benchmarks[benchmark],
            summary.figures,
            baseline.score_prompts(records, scores, keys),
        )
        write_text(folder / baseline.FOLDER / f"{benchmark}.json", baseline.dump(scored))

    def _with_noise(
        self,
        found: Verdict | EvaluationError,
        records: Sequence[Record],
        repeats: Sequence[Sequence[Record]],
    ) -> Verdict | EvaluationError:
        """A verdict with what the repeats of its benchmark's verdicts say."""
        if isinstance(found, EvaluationError) or not repeats:
            return found
        seen = [select(found.gate, each) for each in (records, *repeats)]
        metric, level = METRICS[found.gate.metric], self._rules.level
        return replace(found, noise=noise(metric, seen, found.estimate, level))

    def _publish(self, benchmark: str, found: Mapping[str, Verdict | EvaluationError]) -> None:
        """Publish verdicts of gates, or why there are none; the summary has what is published."""
        verdicts = {
            id: self._redaction.verdict(said)
            for id, said in found.items()
            if isinstance(said, Verdict)
        }
        errors = {id: str(said) for id, said in found.items() if isinstance(said, EvaluationError)}
        outcomes = {id: Published(verdict) for id, verdict in verdicts.items()}
        self._board.post(benchmark, outcomes | {id: Published(error=e) for id, e in errors.items()})
        self._summary.verdicts |= verdicts
        self._summary.errors |= errors

    def _order(self) -> None:
        """Benchmarks end in any order; the summary lists gates in the threshold files' order."""
        verdicts = self._summary.verdicts
        gates = [gate for gate in self._gates if gate.id in verdicts]
        self._summary.verdicts = {gate.id: verdicts[gate.id] for gate in gates}
        breached, failing = expected_breaches(gates, self._rules.level)
        self._summary.expected_breaches, self._summary.expected_failures = breached, failing
