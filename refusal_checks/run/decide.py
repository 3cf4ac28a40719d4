"""Decide the gates of a complete benchmark; publish the verdicts and write the run's files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.files import write_text
from refusal_checks.core.language import other_language
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.settings import JudgeSampling, Sampling
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Binary, Invalid, Reason
from refusal_checks.gates import baseline
from refusal_checks.gates.baseline import Scores
from refusal_checks.gates.decide import Verdict, decide_all
from refusal_checks.gates.estimates import Rules, expected_breaches
from refusal_checks.gates.gate import Use
from refusal_checks.judges import cascade
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.canary import JudgeCheck
from refusal_checks.judges.trust.correction import JudgeErrors
from refusal_checks.metrics import METRICS, rejection_rate, score_all
from refusal_checks.metrics.base import nothing_valid
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate, worst_of
from refusal_checks.results import export, histograms
from refusal_checks.results.manifest import conditions
from refusal_checks.results.outbox import JudgeOutcome, Published
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import (
    BenchmarkSummary,
    Sampled,
    balance,
    distinct,
    refusal_categories,
    summarise,
)
from refusal_checks.run.assembly import prompts_of
from refusal_checks.run.evaluate import drawn
from refusal_checks.run.prepare import Prepared

Decided = Mapping[str, Verdict | EvaluationError]
"""Verdicts of gates, or why there is none, by gate id."""

Records = Sequence[Record]

Scored = Mapping[str, Mapping[str, float]]
"""The prompts' scores, by metric and prompt id."""


LOOKED_AT = 1000
"""Most answers of a benchmark whose language is looked at, which takes 0.1 ms each."""


class Decider:
    """Decides the gates of complete benchmarks; publishes the outcomes and writes the run's files.

    A benchmark that stands for all attacks on another is decided once the answers under each of
    them are there.
    """

    def __init__(self, run: Prepared) -> None:
        self._run = run
        self._known = run.options.questions.benchmarks
        named = dict.fromkeys(gate.benchmark for gate in run.gates)
        self._under = {name: under for name in named if (under := self._known[name].under)}
        self._seen: dict[str, tuple[Records, ...]] = {}
        self._done: set[str] = set()

    def is_done(self, benchmark: str) -> bool:
        """True if outcomes of the benchmark have been published."""
        return benchmark in self._done

    def judge_check(self, check: JudgeCheck) -> None:
        """Publish how the judge did on its own check."""
        shown = self._run.redaction.check(check)
        self._run.board.post_judge(JudgeOutcome(shown))
        self._run.summary.judge = shown

    def leave_undecided(self, benchmark: str, why: str) -> None:
        """Publish why a benchmark's gates, and those that need its answers, have no verdict."""
        self._publish(benchmark, self._none(benchmark, why))
        for name, under in self._under.items():
            if benchmark in under and name not in self._done:
                self._publish(name, self._none(name, why))

    def decide(self, name: str, records: Records, repeats: Sequence[Records]) -> Decided:
        """The outcomes of a complete benchmark's gates; publishes nothing.

        Args:
            repeats: the same answers with the judges' repeated verdicts.
        """
        run = self._run
        records = run.redaction.judged(records)
        try:
            rules = self._rules(name, records)
        except CalibrationError as fault:
            return self._none(name, str(fault))
        stopped = len({record.prompt.id for record in records}) < self._planned(name)
        estimator = run.early.estimate if run.early and stopped else None
        gates = [gate for gate in run.gates if gate.benchmark == name]
        return decide_all(gates, records, rules, run.earlier.get(name), estimator, repeats)

    def publish(
        self,
        name: str,
        records: Records,
        repeats: Sequence[Records],
        decided: Decided,
        sampled: Sampled | None = None,
    ) -> None:
        """Publish the outcomes of a complete benchmark, and write what the run's folder keeps.

        Args:
            records: as decided on, perhaps with reasons that judges have given since.
            sampled: by which ways of refusing are counted where verdicts have no reasons.
        """
        run = self._run
        shown = run.redaction.judged(records)
        scores = score_all(shown)
        run.summary.benchmarks[name] = figures = self._figures(name, shown, scores, sampled)
        sampling = run.options.answering.sampling, run.options.judging.sampling
        for line in truncation_remarks(shown, *sampling):
            run.summary.note(f"{name}: {line}")
        views: dict[str, Mapping[Use, Estimate]] = {
            gate: {view.use: view.estimate for view in found.views if view.use != "raw"}
            for gate, found in decided.items()
            if isinstance(found, Verdict) and found.use != "raw"
        }
        errors = {
            gate: view.errors
            for gate, found in decided.items()
            if isinstance(found, Verdict)
            for view in found.views
            if view.errors and view.use == found.use
        }
        if blurred := self._blurred(name, decided):
            run.summary.note(blurred)
        self._write(name, shown, figures, scores, views, errors)
        run.summary.balance = balance(
            [(each.kind, each.figures) for each in distinct(run.summary.benchmarks).values()],
            run.rules.level,
        )
        self._publish(name, decided)
        verdicts = run.summary.verdicts
        gates = [gate for gate in run.gates if gate.id in verdicts]  # benchmarks end in any order
        run.summary.verdicts = {gate.id: verdicts[gate.id] for gate in gates}
        breached, failing = expected_breaches(gates, run.rules.level)
        run.summary.expected_breaches, run.summary.expected_failures = breached, failing
        self._add(name, records, repeats)

    def _planned(self, name: str) -> int:
        return len({prompt.id for prompt in prompts_of(self._known[name], self._run.parts.plan)})

    def _none(self, benchmark: str, why: str) -> Decided:
        gates = [gate.id for gate in self._run.gates if gate.benchmark == benchmark]
        return dict.fromkeys(gates, EvaluationError(why))

    def _rules(self, name: str, records: Records) -> Rules:
        """The rules of a benchmark, with what people and a second judge say of its answers."""
        run = self._run
        evidence = run.rules.evidence
        if labels := run.options.trust.labels:
            this = f"run {run.board.folder.name} of {run.parts.candidate.name}"
            found = labels.find(name, records, this)
            if any(isinstance(record.judgement, Binary) for record in records):
                none = "no human labels, so the judge's figures decide"
                run.summary.note(f"{name}: {found.of(records).in_words if found.draws else none}")
            evidence = replace(evidence, labels=found)
        panel, plan = run.parts.judges[name], run.parts.plan
        if (formed := cascade.of(panel)) and formed.rule.sample and name in plan:
            second = cascade.SecondOpinions(formed, drawn(panel, name, plan[name]))
            evidence = replace(evidence, second=second)
        return replace(run.rules, evidence=evidence)

    def _figures(
        self, name: str, records: Records, scores: Scored, sampled: Sampled | None
    ) -> BenchmarkSummary:
        about, panel, plan = self._known[name], self._run.parts.judges[name], self._run.parts.plan
        level = self._run.rules.level
        figures = replace(
            summarise(records, level, scores, self._planned(name), about.kind.value),
            parts=about.parts,
            attack=about.attack,
            plain=about.plain,
        )
        if about.attack or any(each.plain == name for each in self._known.values()):
            rates = rejection_rate.name, worst_attack_rejection_rate.name
            figures = replace(figures, confidences=scores.get(rates[0]) or scores.get(rates[1], {}))
        if any(judge.identity is not None for judge in panel):
            figures = replace(figures, unmeasured=self._unmeasured(records))
        if any(judge.reasoned for judge in panel):
            figures = replace(
                figures,
                reasons=sampled.reasons if sampled else None,
                refusal_categories=refusal_categories(sampled.records if sampled else ()),
            )
        if (formed := cascade.of(panel)) and name in plan:
            asked = cascade.asked(formed, records, drawn(panel, name, plan[name]))
            figures = replace(figures, second=asked)
        return figures

    def _unmeasured(self, records: Records) -> dict[str, int]:
        """Answers judged for refusal in languages in which nothing measured the judge."""
        calibration = self._run.rules.evidence.calibration
        known = calibration.measured if calibration else frozenset()
        known |= canary.LANGUAGES if self._run.summary.judge else frozenset()
        if not known:
            return {}
        judged = (
            record.completion.text
            for record in records[:LOOKED_AT]
            if record.completion and isinstance(record.judgement, Binary)
        )
        return dict(Counter(filter(None, (other_language(text, known) for text in judged))))

    def _write(
        self,
        name: str,
        records: Records,
        figures: BenchmarkSummary,
        scores: Scored,
        views: Mapping[str, Mapping[Use, Estimate]],
        errors: Mapping[str, JudgeErrors],
    ) -> None:
        parts, manifest = self._run.parts, self._run.summary.manifest
        folder, benchmark = self._run.board.folder, self._known[name]
        shown = self._run.redaction.records(records)
        RunFolder(folder).write_records(name, shown)
        if len(parts.judges[name]) > 1:
            export.append_disagreements(folder, name, shown)
        if confidences := list(scores[mean_refusal_confidence.name].values()):
            drawn = histograms.histogram(name, figures.kind, confidences)
            histograms.write(folder, manifest.shown, drawn)
        keys = {r.prompt.id: parts.candidate.keys(r.prompt) for r in records if not r.sample}
        scored = Scores(
            benchmark=name,
            kind=benchmark.kind,
            candidate=manifest.candidate,
            version=manifest.models.candidate.version,
            started=manifest.started,
            conditions=conditions(manifest, name),
            figures=figures.figures,
            prompts=baseline.score_prompts(records, scores, keys, self._people(name, records)),
            title=manifest.title,
            views=views,
            errors=errors,
            bounds={gate.id: gate.bounds for gate in self._run.gates if gate.benchmark == name},
        )
        write_text(folder / baseline.FOLDER / f"{name}.json", baseline.dump(scored))

    def _blurred(self, name: str, decided: Decided) -> str:
        """By how much the judge's known errors may fool margins that rest on it alone."""
        margins = [
            margin
            for found in decided.values()
            if isinstance(found, Verdict) and found.comparison and found.use == "raw"
            if Binary in METRICS[found.gate.metric].reads and METRICS[found.gate.metric].blurred
            for margin in (found.gate.max_drop, found.gate.max_rise)
            if margin is not None
        ]
        calibration, check = self._run.rules.evidence.calibration, self._run.summary.judge
        shown, where = 1.0, "its calibration"
        if calibration:
            errors = calibration.errors_on(name)
            shown = errors.sensitivity + errors.specificity - 1
        elif check and (agreement := check.agreement):
            shown, where = 2 * agreement.value - 1, "the canary"
        if not margins or shown > 1 - 1e-9:
            return ""
        return (
            f'{name}: for a margin without the judge\'s errors write use = "corrected", or label '
            f"answers of both runs: by {where} the judge shows {max(0.0, shown):.0%} of a true "
            f"change, so one of {100 * max(margins) / max(shown, 0.01):.3g} points may look like "
            f"{100 * max(margins):.3g}"
        )

    def _people(self, name: str, records: Records) -> dict[str, dict[str, float]]:
        """Scores by people's labels, by metric and prompt id."""
        labels = self._run.options.trust.labels
        if not labels:
            return {}
        found = labels.find(name, records, self._run.board.folder.name)
        refusal = (each for each in METRICS.values() if Binary in each.reads and each.blurred)
        return {metric.name: found.scores(metric, records) for metric in refusal}

    def _publish(self, name: str, decided: Decided) -> None:
        """Publish outcomes; the summary then has what was published."""
        run = self._run
        verdicts = {
            gate: run.redaction.verdict(each)
            for gate, each in decided.items()
            if isinstance(each, Verdict)
        }
        errors = {gate: str(each) for gate, each in decided.items() if gate not in verdicts}
        facts = _facts(run.summary.benchmarks.get(name))
        outcomes = {gate: Published(verdict, facts=facts) for gate, verdict in verdicts.items()}
        run.board.post(name, outcomes | {gate: Published(error=e) for gate, e in errors.items()})
        run.summary.verdicts |= verdicts
        run.summary.errors |= errors
        self._done.add(name)

    def _add(self, benchmark: str, records: Records, repeats: Sequence[Records]) -> None:
        """Keep answers that a benchmark of all attacks needs; decide it with the last of them."""
        if not any(benchmark in under for under in self._under.values()):
            return  # it need not be kept until the run ends
        self._seen[benchmark] = (records, *repeats)
        for name, under in self._under.items():
            if name not in self._done and self._seen.keys() >= set(under):
                self._decide_union(name, {one: self._seen[one] for one in under})

    def _decide_union(self, name: str, seen: Mapping[str, tuple[Records, ...]]) -> None:
        for under, (records, *_) in seen.items():
            if all(isinstance(record.judgement, Invalid) for record in records):
                why = f"{under}: {nothing_valid(records)}"
                self._publish(name, self._none(name, why))
                return
        attacks = {one: self._known[one].attack for one in seen}
        records, *repeats = (
            worst_of({attacks[one]: sets[number] for one, sets in seen.items()})
            for number in range(len(next(iter(seen.values()))))
        )
        self.publish(name, records, repeats, self.decide(name, records, repeats))


def _facts(found: BenchmarkSummary | None) -> dict[str, str]:
    if found is None:
        return {}
    reasons = found.reasons
    drawn = f"a sample of {reasons.sampled} of {reasons.answers} answers" if reasons else ""
    return ({"refusal_categories_of": drawn} if drawn else {}) | {
        f"refusal_category_{re.sub(r'[^A-Za-z0-9]', '_', way)[:60]}": str(count)
        for way, count in found.refusal_categories.items()
    }


def truncation_remarks(
    records: Sequence[Record], sampling: Sampling, judge_sampling: JudgeSampling
) -> Iterator[str]:
    """A line for each limit that made answers of a benchmark invalid: the option that raises it."""
    unclosed, unfinished = (
        _of(records, Reason.UNCLOSED_REASONING),
        _of(records, Reason.UNFINISHED_ANSWER),
    )
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
            "name the text that ends the candidate's reasoning with --candidate-reasoning-end: "
            f"{count(len(unclosed) - len(cut), 'answer')} ended without it"
        )
    shorter = [answer.tokens for answer in unfinished if answer.finish_reason == "length"]
    if shorter:
        yield (
            f"set --max-tokens (now {sampling.max_tokens}) to what the candidate's server allows: "
            f"it cut {count(len(shorter), 'answer')} short, from {min(shorter)} tokens on"
        )
    if verdicts := sum(_reason(record) is Reason.UNFINISHED_VERDICT for record in records):
        yield (
            f"raise --judge-max-tokens (now {judge_sampling.max_tokens}): "
            f"{count(verdicts, 'verdict')} did not end"
        )


def _of(records: Sequence[Record], reason: Reason) -> list[Completion]:
    found = (record.completion for record in records if _reason(record) is reason)
    return [answer for answer in found if answer]


def _reason(record: Record) -> Reason | None:
    return record.judgement.reason if isinstance(record.judgement, Invalid) else None
