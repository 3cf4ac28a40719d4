"""Evidence on a run's judges: a calibration, and human labels of its own answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.evaluation.config import TrustConfig
from refusal_checks.evaluation.planning import Judges, Plan, Task, known_verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import Evidence, require_single
from refusal_checks.judges import cascade, kind_of
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.trust.calibration import (
    Calibration,
    JudgeIdentity,
    joined,
    require_judge,
    require_partial,
)
from refusal_checks.judges.trust.correction import require_information
from refusal_checks.judges.trust.draws import prompt_keys
from refusal_checks.judges.trust.label_checks import LabelCheck, require_agreement
from refusal_checks.judges.trust.labels import HumanLabels
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.recordings.columns import ReplayOptions


def identify(judge: Judge, reading: ReplayOptions) -> JudgeIdentity:
    """Identify a judge for calibrations: by its model, or by its name and rules if it has none."""
    name = judge.name
    if judge.name == "labels":
        if "label" in reading.columns:
            name += f":{reading.columns['label']}"
        if reading.labels:
            meanings = [
                f"{label}={meaning}"
                for label, meaning in sorted(reading.labels.items())
            ]
            name += f" ({', '.join(meanings)})"
    identity = judge.identity or name
    if judge.gives_probabilities:
        identity += f"+{judge.thresholds.in_words}"
    return JudgeIdentity(
        name=name,
        identity=identity,
        prompt_sha256=judge.prompt_hash,
        rationales="offenders" if judge.reasoned else "all",
    )


def identify_panel(panel: Sequence[Judge], reading: ReplayOptions) -> JudgeIdentity:
    """Identify several judges for calibrations; a cascade includes its bounds."""
    identity = joined([identify(judge, reading) for judge in panel])
    formed = cascade.of(panel)
    if formed is None:
        return identity
    return identity.model_copy(update={"identity": f"{identity.identity}+{formed.key}"})


def calibrated_evidence(
    trust: TrustConfig,
    candidate: str,
    gates: Sequence[Gate],
    benchmarks: Mapping[str, Benchmark],
    plan: Plan,
    judges: Judges,
    reading: ReplayOptions,
    answering: Candidate,
    level: float,
) -> Evidence:
    """Check the calibration against the run and return it; labels are matched to answers later.

    Args:
        candidate: the run's candidate, as calibrations name it.
        reading: how recorded answers are read.
        answering: gives the number of answers to each prompt.
        level: confidence level of intervals.

    Raises:
        CalibrationError: a gate needs a calibration, or it does not fit the run.
    """
    calibration, path = trust.calibration, trust.calibration_file
    evidence = Evidence(calibration, candidate)
    corrected = [gate for gate in gates if gate.use == "corrected"]
    if calibration is None or path is None:
        for gate in corrected:
            raise CalibrationError(
                f'{_where(gate)}: give --calibration FILE: use = "corrected" needs it'
            )
        return evidence

    of_refusal = {
        gate.benchmark
        for gate in gates
        if kind_of(benchmarks[gate.benchmark]).judges_refusal
    }
    for gate in corrected:
        if gate.benchmark not in of_refusal:
            raise CalibrationError(
                f'{_where(gate)}: remove use = "corrected": only judges of refusal can be '
                "calibrated"
            )
        try:
            prompts = plan.get(gate.benchmark, ())
            require_single(max((len(answering.keys(p)) for p in prompts), default=1))
        except CalibrationError as fault:
            raise CalibrationError(f"{_where(gate)}: {fault}") from None
    for name in sorted(of_refusal):
        require_judge(path, calibration, identify_panel(judges[name], reading))
        require_partial(path, calibration, judges[name][0].partial)
    require_information(calibration.errors, level)
    for gate in corrected:
        _require_fitting(gate, calibration, path, plan, candidate, level)
    return evidence


def _require_fitting(
    gate: Gate,
    calibration: Calibration,
    path: Path,
    plan: Plan,
    candidate: str,
    level: float,
) -> None:
    """Refuse to correct a gate's figure if the calibration covers too little of its answers."""
    keys = None
    if gate.group:
        prompts = filter(gate.looks_at, plan.get(gate.benchmark, ()))
        keys = prompt_keys(prompts)
    try:
        require_information(calibration.errors_on(gate.benchmark, keys), level)
    except CalibrationError as fault:
        raise CalibrationError(f"{_where(gate)}: {fault}") from None
    others = calibration.foreign(candidate, gate.benchmark, keys)
    if others and not gate.allow_transferred:
        what = f"{gate.benchmark} {gate.group}" if gate.group else gate.benchmark
        raise CalibrationError(
            f"{_where(gate)}: calibrate on answers of {candidate} to {what} "
            "(refusal-checks calibrate --benchmark), give --human-labels, or write "
            f"allow_transferred = true: {path} is from {others}, on which a judge errs "
            "differently"
        )


def _where(gate: Gate) -> str:
    return f"{gate.source}: {gate.id}"


def _judged(task: Task, name: str, records: Sequence[Record]) -> list[Record]:
    """Those of a benchmark's records that rules or the store have a verdict on, with it."""
    judged = []
    for record in records:
        assert record.completion
        verdict = known_verdict(task, name, record.prompt, record.completion)
        if verdict:
            judged.append(replace(record, judgement=verdict))
    return judged


def require_own_labels(labels: HumanLabels, task: Task, this_run: str) -> None:
    """Check human labels against the run's prompts and what is stored of it.

    Raises:
        CalibrationError: they label other prompts or other answers, or contradict most verdicts.
    """
    plan, candidate = task.plan, task.candidate
    if labels.draws and not any(draw.benchmark in plan for draw in labels.draws):
        named = ", ".join(dict.fromkeys(draw.benchmark for draw in labels.draws))
        raise CalibrationError(
            f"{labels.name}: select gates of {named}, or leave out --human-labels: the labels are "
            f"of {named}, and this run evaluates {', '.join(plan)}"
        )
    prompts = list(chain.from_iterable(plan.values()))
    labels.require_prompts(prompts, this_run)
    checks: list[LabelCheck] = []
    for name, own in plan.items():
        stored = candidate.known(own, task.store)
        records: list[Record] = []
        missing = 0
        for prompt in own:
            for sample, key in enumerate(candidate.keys(prompt)):
                if key in stored:
                    unjudged = Invalid(Reason.NO_LABEL)
                    records.append(Record(prompt, sample, stored[key], unjudged))
                else:
                    missing += 1
        # Labels without an answer may be of those that are still to be generated.
        matched, unmatched = labels.match(name, records)
        checks += matched.checks(_judged(task, name, matched.only(records)))
        is_foreign = any(
            row.draw and row.draw.candidate != candidate.name for row in unmatched
        )
        if len(unmatched) > missing or is_foreign:
            labels.require_none(unmatched, this_run)
    require_agreement(labels.name, checks)
