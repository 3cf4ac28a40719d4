"""Decide the gates of a complete benchmark; publish the verdicts and write the run's files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.files import write_text
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.settings import JudgeSampling, Sampling
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Binary, Invalid, Reason
from refusal_checks.gates import baseline
from refusal_checks.gates.decide import Verdict, decide_all
from refusal_checks.gates.estimates import Rules, expected_breaches
from refusal_checks.judges import cascade
from refusal_checks.judges.base import reasoned
from refusal_checks.judges.trust.canary import JudgeCheck
from refusal_checks.metrics import rejection_rate, score_all
from refusal_checks.metrics.base import nothing_valid
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate, worst_of
from refusal_checks.results import export, histograms
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
from refusal_checks.run import prepare
from refusal_checks.run.assembly import prompts_of
from refusal_checks.run.evaluate import drawn
from refusal_checks.run.prepare import Prepared

Decided = Mapping[str, Verdict | EvaluationError]
"""Verdicts of gates, or why there is none, by gate id."""


def judge_check(run: Prepared, check: JudgeCheck) -> None:
    """Publish how the judge did on its own check."""
    shown = run.redaction.check(check)
    run.board.post_judge(JudgeOutcome(shown))
    run.summary.judge = shown


def undecided(run: Prepared, benchmark: str, reason: str) -> None:
    """Publish why a benchmark's gates have no verdict."""
    gates = [gate.id for gate in run.gates if gate.benchmark == benchmark]
    _publish(run, benchmark, dict.fromkeys(gates, EvaluationError(reason)))


def benchmark(
    run: Prepared,
    name: str,
    records: Sequence[Record],
    repeats: Sequence[Sequence[Record]],
    sampled: Sampled | None = None,
) -> None:
    """Decide and publish the gates of a benchmark that is complete.

    Args:
        repeats: the same answers with the judges' repeated verdicts.
        sampled: by which ways of refusing are counted where verdicts have no reasons.
    """
    records = run.redaction.judged(records)
    about = run.options.benchmarks[name]
    scores, planned = score_all(records), len({p.id for p in prompts_of(about, run.parts.plan)})
    figures = summarise(records, run.rules.level, scores, planned, about.kind.value)
    figures = replace(figures, parts=about.parts, attack=about.attack, plain=about.plain)
    if about.attack or any(each.plain == name for each in run.options.benchmarks.values()):
        by_prompt = scores.get(rejection_rate.name) or scores.get(worst_attack_rejection_rate.name)
        figures = replace(figures, confidences=by_prompt or {})
    panel, plan = run.parts.judges[name], run.parts.plan
    if any(map(reasoned, panel)):
        counts = refusal_categories(sampled.records if sampled else ())
        reasons = sampled.reasons if sampled else None
        figures = replace(figures, reasons=reasons, refusal_categories=counts)
    if (found := cascade.of(panel)) and name in plan:
        figures = replace(
            figures, second=cascade.asked(found, records, drawn(panel, name, plan[name]))
        )
    run.summary.benchmarks[name] = figures
    for line in truncation_remarks(records, run.options.sampling, run.options.judge_sampling):
        run.summary.note(f"{name}: {line}")
    _write(run, name, records, figures, scores)
    run.summary.balance = balance(
        [(each.kind, each.figures) for each in distinct(run.summary.benchmarks).values()],
        run.rules.level,
    )
    try:
        rules = _rules(run, name, records)
    except CalibrationError as fault:
        undecided(run, name, str(fault))
    else:
        _publish(run, name, _decide(run, name, rules, records, repeats))
    _order(run)


def _with_labels(run: Prepared, name: str, records: Sequence[Record]) -> Rules:
    """The rules with people's labels of this benchmark's answers.

    Raises:
        CalibrationError: the labels are of other answers.
    """
    labels = run.options.trust.labels
    if not labels:
        return run.rules
    this = f"run {run.board.folder.name} of {run.options.candidate.name}"
    found = labels.find(name, records, this)
    if any(isinstance(record.judgement, Binary) for record in records):
        none = "no human labels, so the judge's figures decide"
        run.summary.note(f"{name}: {found.of(records).in_words if found.draws else none}")
    return replace(run.rules, human=replace(run.rules.human, labels=found))


def _rules(run: Prepared, name: str, records: Sequence[Record]) -> Rules:
    """The rules of a benchmark, with what people and a second judge say of its answers.

    Raises:
        CalibrationError: the labels are of other answers.
    """
    rules = _with_labels(run, name, records)
    panel, plan = run.parts.judges[name], run.parts.plan
    found = cascade.of(panel)
    if found is None or not found.rule.sample or name not in plan:
        return rules
    second = found.opinions(drawn(panel, name, plan[name]))
    return replace(rules, human=replace(rules.human, second=second))


def preview(run: Prepared, name: str, records: Sequence[Record]) -> dict[str, Verdict]:
    """The verdicts that a complete benchmark's gates will have, by gate id; publishes nothing."""
    try:
        decided = _decide(run, name, _rules(run, name, records), records, ())
    except CalibrationError:
        return {}
    return {gate: each for gate, each in decided.items() if isinstance(each, Verdict)}


def _decide(
    run: Prepared,
    name: str,
    rules: Rules,
    records: Sequence[Record],
    repeats: Sequence[Sequence[Record]],
) -> Decided:
    """The verdicts of a benchmark's gates."""
    planned = {prompt.id for prompt in prompts_of(run.options.benchmarks[name], run.parts.plan)}
    stopped = len({record.prompt.id for record in records}) < len(planned)
    gates = [gate for gate in run.gates if gate.benchmark == name]
    earlier = run.earlier.get(name)
    estimate = run.early.estimate if run.early and stopped else None
    return decide_all(gates, records, rules, earlier, estimate, repeats)


def _write(
    run: Prepared,
    name: str,
    records: Sequence[Record],
    figures: BenchmarkSummary,
    scores: Mapping[str, Mapping[str, float]],
) -> None:
    """Write what the run's folder keeps of a benchmark."""
    folder = run.board.folder
    shown = run.redaction.records(records)
    RunFolder(folder).write_records(name, shown)
    if len(run.parts.judges[name]) > 1:
        export.append_disagreements(folder, name, shown)
    if confidences := list(scores[mean_refusal_confidence.name].values()):
        drawn = histograms.histogram(name, figures.kind, confidences)
        histograms.write(folder, run.summary.manifest.shown, drawn)
    keys = {r.prompt.id: run.parts.candidate.keys(r.prompt) for r in records if not r.sample}
    scored = prepare.scores(
        run.summary.manifest,
        run.options.benchmarks[name],
        figures.figures,
        baseline.score_prompts(records, scores, keys),
    )
    write_text(folder / baseline.FOLDER / f"{name}.json", baseline.dump(scored))


def _publish(run: Prepared, name: str, decided: Decided) -> None:
    """Publish outcomes; the summary then has what was published."""
    verdicts, errors = {}, {}
    for gate, each in decided.items():
        if isinstance(each, Verdict):
            verdicts[gate] = run.redaction.verdict(each)
        else:
            errors[gate] = str(each)
    facts = _facts(run, name)
    outcomes = {gate: Published(verdict, facts=facts) for gate, verdict in verdicts.items()}
    run.board.post(name, outcomes | {gate: Published(error=e) for gate, e in errors.items()})
    run.summary.verdicts |= verdicts
    run.summary.errors |= errors


def _facts(run: Prepared, name: str) -> dict[str, str]:
    """A benchmark's answers by way of refusing, if it is complete."""
    found = run.summary.benchmarks.get(name)
    counts = found.refusal_categories if found else {}
    reasons = found.reasons if found else None
    drawn = f"a sample of {reasons.sampled} of {reasons.answers} answers" if reasons else ""
    return ({"refusal_categories_of": drawn} if drawn else {}) | {
        f"refusal_category_{re.sub(r'[^A-Za-z0-9]', '_', way)[:60]}": str(count)
        for way, count in counts.items()
    }


def _order(run: Prepared) -> None:
    """List the gates in the order of the threshold files; benchmarks end in any order."""
    verdicts = run.summary.verdicts
    gates = [gate for gate in run.gates if gate.id in verdicts]
    run.summary.verdicts = {gate.id: verdicts[gate.id] for gate in gates}
    breached, failing = expected_breaches(gates, run.rules.level)
    run.summary.expected_breaches, run.summary.expected_failures = breached, failing


Records = Sequence[Record]


class Pools:
    """Publishes such a benchmark once the answers under all of its attacks are there."""

    def __init__(self, run: Prepared) -> None:
        self._run = run
        about = {gate.benchmark: run.options.benchmarks[gate.benchmark] for gate in run.gates}
        self._under = {name: one.under for name, one in about.items() if one.under}
        self._seen: dict[str, tuple[Records, ...]] = {}
        self._decided: set[str] = set()

    def add(self, benchmark: str, records: Records, repeats: Sequence[Records]) -> None:
        """Take the answers of a benchmark, with the judges' repeated verdicts."""
        if not any(benchmark in under for under in self._under.values()):
            return  # it need not be kept until the run ends
        self._seen[benchmark] = (records, *repeats)
        for name, under in self._under.items():
            if name not in self._decided and self._seen.keys() >= set(under):
                self._publish(name, {one: self._seen[one] for one in under})

    def _publish(self, name: str, seen: Mapping[str, tuple[Records, ...]]) -> None:
        for under, (records, *_) in seen.items():
            if all(isinstance(record.judgement, Invalid) for record in records):
                self.undecided(under, f"{under}: {nothing_valid(records)}")
                return
        attacks = {one: self._run.options.benchmarks[one].attack for one in seen}
        records, *repeats = (
            worst_of({attacks[one]: sets[number] for one, sets in seen.items()})
            for number in range(len(next(iter(seen.values()))))
        )
        benchmark(self._run, name, records, repeats)
        self._decided.add(name)

    def undecided(self, benchmark: str, why: str) -> None:
        """Publish that a benchmark has no verdicts, for those that need its answers."""
        for name, under in self._under.items():
            if benchmark in under and name not in self._decided:
                undecided(self._run, name, why)
                self._decided.add(name)


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
