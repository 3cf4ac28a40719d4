"""Decide the gates of a complete benchmark; publish the verdicts and write the run's files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.files import write_lines
from refusal_checks.core.language import other_language
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Binary, Invalid, Reason
from refusal_checks.evaluation.loading import prompts_of
from refusal_checks.evaluation.planning import drawn
from refusal_checks.evaluation.prepare import PreparedRun
from refusal_checks.gates import score_files
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.estimates import Rules, expected_breaches
from refusal_checks.gates.score_files import Scores
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges import cascade, kind_of
from refusal_checks.judges.panel import way_of
from refusal_checks.judges.trust.canary import JudgeCheck
from refusal_checks.metrics import METRICS, rejection_rate, score_all
from refusal_checks.metrics.metric import nothing_valid
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate, worst_of
from refusal_checks.results import export, histograms
from refusal_checks.results.manifest import conditions
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import (
    BenchmarkSummary,
    balance,
    distinct,
    summarise,
)

Decided = Mapping[str, Verdict | EvaluationError]
"""Verdicts of gates, or why there is none, by gate id."""

Records = Sequence[Record]

Scored = Mapping[str, Mapping[str, float]]
"""The prompts' scores, by metric and prompt id."""


LOOKED_AT = 1000
"""Most answers of a benchmark whose language is looked at, which takes 0.1 ms each."""


class Decider:
    """Decides the gates of complete benchmarks; publishes the outcomes and writes the run's files.

    A benchmark that stands for all attacks is decided once the answers under each are there.
    ``published`` is told of gates whose outcomes are in the summary.
    """

    def __init__(
        self,
        run: PreparedRun,
        published: Callable[[tuple[str, ...]], None] = lambda gates: None,
    ) -> None:
        self._run = run
        self._published = published
        self._known = run.config.benchmarks
        named = dict.fromkeys(gate.benchmark for gate in run.gates)
        self._under = {
            name: under for name in named if (under := self._known[name].under)
        }
        self._seen: dict[str, Records] = {}
        self._done: set[str] = set()

    def is_done(self, benchmark: str) -> bool:
        return benchmark in self._done

    def leave_undecided(self, benchmark: str, why: str) -> None:
        """Publish why a benchmark's gates, and those that need its answers, have no verdict."""
        self._publish(benchmark, self._none(benchmark, why))
        for name, under in self._under.items():
            if benchmark in under and name not in self._done:
                self._publish(name, self._none(name, why))

    def decide(self, name: str, records: Records) -> Decided:
        """The outcomes of a complete benchmark's gates; publishes nothing."""
        run = self._run
        records = run.redaction.judged(records)
        try:
            rules = self._rules(name, records)
        except CalibrationError as fault:
            return self._none(name, str(fault))
        stopped = len({record.prompt.id for record in records}) < self._planned(name)
        estimator = run.early.estimate if run.early and stopped else None
        gates = [gate for gate in run.gates if gate.benchmark == name]
        return decide_all(gates, records, rules, run.earlier.get(name), estimator)

    def publish(
        self,
        name: str,
        records: Records,
        decided: Decided,
    ) -> None:
        """Publish the outcomes of a complete benchmark, and write what the run's folder keeps.

        Args:
            records: as decided on, perhaps with reasons that a judge has given since.
        """
        run = self._run
        shown = run.redaction.judged(records)
        scores = score_all(shown)
        figures = run.redaction.benchmark(self._figures(name, shown, scores))
        run.summary.benchmarks[name] = figures
        written = max((judge.max_tokens for judge in run.parts.judges[name]), default=0)
        for line in truncation_remarks(shown, run.config.answering.sampling, written):
            run.summary.note(f"{name}: {line}")
        if not run.redaction.wanted:
            run.summary.note_unread(
                shown, [each.expected for each in run.parts.judges[name]]
            )
        if blurred := self._blurred(name, decided):
            run.summary.note(blurred)
        self._write(name, shown, figures, scores, decided)
        run.summary.balance = balance(
            [
                (each.kind, each.figures)
                for each in distinct(run.summary.benchmarks).values()
            ],
            run.rules.level,
        )
        self._publish(name, decided)
        verdicts = run.summary.verdicts
        gates = [
            gate for gate in run.gates if gate.id in verdicts
        ]  # benchmarks end in any order
        run.summary.verdicts = {gate.id: verdicts[gate.id] for gate in gates}
        decided_apart = [
            each.gate
            for gate in gates
            for each in verdicts[gate.id].groups or [verdicts[gate.id]]
        ]
        breached, failing = expected_breaches(decided_apart, run.rules.level)
        run.summary.expected_breaches, run.summary.expected_failures = breached, failing
        self._add(name, records)

    def _planned(self, name: str) -> int:
        return len(
            {
                prompt.id
                for prompt in prompts_of(self._known[name], self._run.parts.plan)
            }
        )

    def _none(self, benchmark: str, why: str) -> Decided:
        gates = [gate.id for gate in self._run.gates if gate.benchmark == benchmark]
        return dict.fromkeys(gates, EvaluationError(why))

    def _rules(self, name: str, records: Records) -> Rules:
        """The rules of a benchmark, with what people and a second judge say of its answers."""
        run = self._run
        evidence = replace(run.rules.evidence, check=self._check(name))
        if labels := run.config.trust.labels:
            this = f"run {run.folder.name} of {run.parts.candidate.name}"
            found = labels.find(name, records, this)
            if any(isinstance(record.judgement, Binary) for record in records):
                none = "no human labels, so the judge's figures decide"
                run.summary.note(
                    f"{name}: {found.of(records).in_words if found.draws else none}"
                )
            evidence = replace(evidence, labels=found)
        panel, plan = run.parts.judges[name], run.parts.plan
        if (formed := cascade.of(panel)) and formed.rule.sample and name in plan:
            second = cascade.SecondOpinions(formed, drawn(panel, name, plan[name]))
            evidence = replace(evidence, second=second)
        return replace(run.rules, evidence=evidence)

    def _figures(self, name: str, records: Records, scores: Scored) -> BenchmarkSummary:
        about, panel, plan = (
            self._known[name],
            self._run.parts.judges[name],
            self._run.parts.plan,
        )
        level = self._run.rules.level
        figures = summarise(
            records, level, scores, self._planned(name), about.kind.value
        )
        changed: dict[str, Any] = {}
        if about.attack or any(each.plain == name for each in self._known.values()):
            rates = rejection_rate.name, worst_attack_rejection_rate.name
            changed["confidences"] = scores.get(rates[0]) or scores.get(rates[1], {})
        if any(judge.identity is not None for judge in panel):
            changed["unmeasured"] = self._unmeasured(name, records)
        if any(judge.reasoned for judge in panel):
            # Only offenders have a category then, which are no random sample.
            changed["refusal_categories"] = {}
        if (formed := cascade.of(panel)) and name in plan:
            drawn_prompts = drawn(panel, name, plan[name])
            changed["second"] = cascade.asked(formed, records, drawn_prompts)
        return replace(
            figures,
            parts=about.parts,
            attack=about.attack,
            plain=about.plain,
            **changed,
        )

    def _check(self, name: str) -> JudgeCheck | None:
        """The check of a benchmark's judges of refusal; None if there was none."""
        kind, check = kind_of(self._known[name]), self._run.summary.judge
        return check.of(way_of(kind)) if check and kind.meets_canary else None

    def _unmeasured(self, name: str, records: Records) -> dict[str, int]:
        """Answers judged for refusal in languages in which nothing measured the judge."""
        measures = self._run.rules.evidence.calibration, self._check(name)
        known = frozenset[str]().union(*(each.measured for each in measures if each))
        if not known:
            return {}
        judged = (
            record.completion.text
            for record in records[:LOOKED_AT]
            if record.completion and isinstance(record.judgement, Binary)
        )
        return dict(
            Counter(filter(None, (other_language(text, known) for text in judged)))
        )

    def _write(
        self,
        name: str,
        records: Records,
        figures: BenchmarkSummary,
        scores: Scored,
        found: Decided,
    ) -> None:
        parts, manifest = self._run.parts, self._run.summary.manifest
        folder, benchmark = self._run.folder, self._known[name]
        shown = self._run.redaction.records(records)
        RunFolder(folder).write_records(name, shown)
        if len(parts.judges[name]) > 1:
            export.append_disagreements(folder, name, shown)
        if confidences := list(scores[mean_refusal_confidence.name].values()):
            histogram = histograms.histogram(name, figures.kind, confidences)
            histograms.write(folder, manifest.shown, histogram)
        people: dict[str, dict[str, float]] = {}
        if sheet := self._run.config.trust.labels:
            labels = sheet.find(name, records, folder.name)
            refusal = (
                each
                for each in METRICS.values()
                if Binary in each.reads and each.blurred
            )
            people = {metric.name: labels.scores(metric, records) for metric in refusal}
        verdicts = {
            gate: each for gate, each in found.items() if isinstance(each, Verdict)
        }
        parts_of_gates = [part for each in verdicts.values() for part in each.groups]
        verdicts |= {part.gate.id: part for part in parts_of_gates}
        scored = Scores(
            benchmark=name,
            kind=benchmark.kind,
            candidate=manifest.candidate,
            version=manifest.models.candidate.version,
            started=manifest.started,
            conditions=conditions(manifest, name),
            figures=figures.figures,
            prompts={},
            title=manifest.title,
            views={
                gate: {
                    view.use: view.estimate for view in each.views if view.use != "raw"
                }
                for gate, each in verdicts.items()
                if each.use != "raw"
            },
            errors={
                gate: view.errors
                for gate, each in verdicts.items()
                for view in each.views
                if view.errors and view.use == each.use
            },
            bounds={
                gate.id: gate.bounds
                for gate in self._run.gates
                if gate.benchmark == name
            },
        )
        prompts = score_files.score_prompts(
            records, scores, parts.candidate.keys, people
        )
        write_lines(
            folder / score_files.FOLDER / f"{name}.json",
            score_files.parts(scored, prompts),
        )

    def _blurred(self, name: str, decided: Decided) -> str:
        """By how much the judge's known errors may fool margins that rest on it alone."""
        margins = [
            margin
            for found in decided.values()
            if isinstance(found, Verdict) and found.comparison and found.use == "raw"
            if Binary in METRICS[found.gate.metric].reads
            and METRICS[found.gate.metric].blurred
            for margin in (found.gate.max_drop, found.gate.max_rise)
            if margin is not None
        ]
        calibration, check = self._run.rules.evidence.calibration, self._check(name)
        shown, where = 1.0, "its calibration"
        if calibration:
            errors = calibration.errors_on(name)
            shown = errors.sensitivity + errors.specificity - 1
        elif (
            found := [e.estimate for e in check.checks if e.figure == "agreement"]
            if check
            else ()
        ):
            shown, where = 2 * (found[0].value if found[0] else 0.5) - 1, "the canary"
        if not margins or shown > 1 - 1e-9:
            return ""
        return (
            f'{name}: for a margin without the judge\'s errors write use = "corrected", or label '
            f"answers of both runs: by {where} the judge shows {max(0.0, shown):.0%} of a true "
            f"change, so one of {100 * max(margins) / max(shown, 0.01):.3g} points may look like "
            f"{100 * max(margins):.3g}"
        )

    def _publish(self, name: str, decided: Decided) -> None:
        run = self._run
        verdicts = {
            gate: run.redaction.verdict(each)
            for gate, each in decided.items()
            if isinstance(each, Verdict)
        }
        errors = {
            gate: str(each) for gate, each in decided.items() if gate not in verdicts
        }
        run.summary.verdicts |= verdicts
        run.summary.errors |= errors
        self._published(tuple(decided))
        self._done.add(name)

    def _add(self, benchmark: str, records: Records) -> None:
        """Keep answers that a benchmark of all attacks needs; decide it with the last of them."""
        if not any(benchmark in under for under in self._under.values()):
            return  # it need not be kept until the run ends
        self._seen[benchmark] = records
        for name, under in self._under.items():
            if name in self._done or not self._seen.keys() >= set(under):
                continue
            seen = {one: self._seen[one] for one in under}
            empty = [
                f"{one}: {nothing_valid(answers)}"
                for one, answers in seen.items()
                if all(isinstance(record.judgement, Invalid) for record in answers)
            ]
            if empty:
                self._publish(name, self._none(name, empty[0]))
                continue
            worst = worst_of(
                {self._known[one].attack: answers for one, answers in seen.items()}
            )
            self.publish(name, worst, self.decide(name, worst))


def truncation_remarks(
    records: Sequence[Record], sampling: Sampling, judge_tokens: int
) -> Iterator[str]:
    """A line for each limit that made answers of a benchmark invalid: the option that raises it.

    ``judge_tokens`` are the most that a judge may write for one verdict.
    """
    faults: dict[Reason, list[Completion]] = {}
    for record in records:
        if isinstance(record.judgement, Invalid) and record.completion:
            faults.setdefault(record.judgement.reason, []).append(record.completion)
    unclosed = faults.get(Reason.UNCLOSED_REASONING, [])
    cut = [answer for answer in unclosed if answer.finish_reason == "length"]
    full = [answer for answer in cut if answer.room]
    if len(cut) > len(full):
        answers = count(len(cut) - len(full), "answer")
        yield f"raise --max-tokens (now {sampling.max_tokens}): {answers} ended in the reasoning"
    if full:
        yield (
            'give the candidate more context (--candidate-args "--max-model-len N" where an engine '
            f"is started): {count(len(full), 'answer')} ended in the reasoning, because prompt "
            f"and answer filled it after {min(answer.room for answer in full)} or more tokens"
        )
    if len(unclosed) > len(cut):
        yield (
            "name the text that ends the candidate's reasoning with candidate.reasoning_end: "
            f"{count(len(unclosed) - len(cut), 'answer')} ended without it"
        )
    unfinished = faults.get(Reason.UNFINISHED_ANSWER, [])
    if shorter := [
        answer.tokens for answer in unfinished if answer.finish_reason == "length"
    ]:
        yield (
            f"set --max-tokens (now {sampling.max_tokens}) to what the candidate's server allows: "
            f"it cut {count(len(shorter), 'answer')} short, from {min(shorter)} tokens on"
        )
    if verdicts := faults.get(Reason.UNFINISHED_VERDICT):
        yield (
            f"raise judge.max_tokens (now {judge_tokens}): "
            f"{count(len(verdicts), 'verdict')} did not end"
        )
