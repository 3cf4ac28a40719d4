"""What is asked of a run's judge before it decides anything: the canary, and its calibration."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Record
from refusal_checks.core.store import Store
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import HumanRates
from refusal_checks.judges import kind_of
from refusal_checks.judges.base import Judge
from refusal_checks.judges.trust import canary, check
from refusal_checks.judges.trust.calibration import JudgeIdentity, joined, require_judge
from refusal_checks.judges.trust.check import JudgeCheck
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.judges.trust.rogan_gladen import require_information
from refusal_checks.models.spec import Replay
from refusal_checks.run.concurrency import prompts_at_once
from refusal_checks.run.evaluate import Evaluation
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.options.judge import Trust
from refusal_checks.run.plan import Judges, Pending, Plan, pending


class Canary:
    """Puts a run's judges of refusal, who decide by majority, to the canary.

    Args:
        judges: the run's; under ``canary.NAME`` those to check.
    """

    def __init__(self, options: Options, judges: Judges, store: Store) -> None:
        self._options = options
        self._store = store
        panel = judges.get(canary.NAME, ())
        self._judges: Judges = {canary.NAME: panel}
        self._plan: Plan = {canary.NAME: canary.plan()}
        self.name = ", ".join(judge.name for judge in panel)
        self.floors: JudgeFloors | None = None
        if any(judge.identity is not None for judge in panel):
            self.floors = options.trust.floors

    @property
    def why_idle(self) -> str:
        """Why there is nothing to check; empty where there is."""
        if self.floors:
            return ""
        if not self._options.trust.floors:
            return "the judge was not checked: no threshold file has a [judge] table"
        if self.name:
            return f"judge {self.name} follows rules, no model: it was not checked"
        return "no gate of this run has a judge of refusal"

    def pending(self) -> Pending:
        """The verdicts that the store does not hold yet."""
        if not self.floors:
            return Pending(0, 0)
        return pending(self._plan, canary.candidate(), self._judges, self._store)

    async def run(self) -> JudgeCheck:
        """The judge's figures against the floors; its server must be there.

        Raises:
            EndpointError: the judge's server refuses every request.
        """
        assert self.floors, "there is something to check"
        asked, start = self.pending().verdicts, perf_counter()
        records: list[Record] = []

        def finished(name: str, found: Sequence[Record]) -> None:
            records.extend(found)

        await Evaluation(
            self._plan,
            canary.candidate(),
            self._judges,
            self._store,
            in_flight=prompts_at_once(self._options),
            finished=finished,
        ).run()
        found = canary.measure(records, self._options.confidence)
        checks = check.check(self.floors, found)
        return JudgeCheck(self.name, canary.digest(), checks, asked, perf_counter() - start)


def identify(judge: Judge, options: Options) -> JudgeIdentity:
    """A judge, as calibrations know it; one without a model is known by its name and rules."""
    name = judge.name
    if name == "labels" and "label" in options.replay_columns:
        name = f"labels:{options.replay_columns['label']}"
    return JudgeIdentity(
        name=name, identity=judge.identity or name, prompt_sha256=judge.prompt_hash
    )


def human_rates(options: Options, gates: Sequence[Gate], judges: Judges) -> HumanRates:
    """What the run knows of people's verdicts, checked against the run.

    Raises:
        CalibrationError: the calibration is missing where a gate needs it, is of another judge,
            says that the judge carries no information, or is transferred where it may not be.
    """
    said, wanted = options.trust, [gate for gate in gates if gate.use == "corrected"]
    known = said.calibration
    if (known or said.labels) and options.stop_early:
        raise CalibrationError("--calibration and --human-labels need whole benchmarks: no "
                               "--stop-early with them")  # fmt: skip
    if known is None or said.calibration_file is None:
        for gate in wanted:
            raise CalibrationError(f'{_where(gate)}: use = "corrected" needs --calibration FILE')
        return HumanRates(labels=said.labels, level=options.confidence)
    for gate in wanted:
        if not kind_of(options.benchmarks[gate.benchmark]).judges_refusal:
            raise CalibrationError(f"{_where(gate)}: only judges of refusal can be calibrated")
    for name in dict.fromkeys(gate.benchmark for gate in gates):
        if kind_of(options.benchmarks[name]).judges_refusal:
            running = joined([identify(judge, options) for judge in judges[name]])
            require_judge(said.calibration_file, known, running)
    require_information(known.errors, options.confidence)
    candidate = candidate_name(options)
    others = ", ".join(known.candidates) if known.is_transferred(candidate) else ""
    for gate in wanted:
        if others and not gate.allow_transferred:
            raise CalibrationError(
                f"{_where(gate)}: {said.calibration_file} was made on answers of {others}, not of "
                f"{candidate}, and a judge errs differently on those. Calibrate on this "
                "candidate's answers, give --human-labels, or write allow_transferred = true"
            )
    return HumanRates(known, others, said.labels, options.confidence)


def provenance(trust: Trust) -> dict[str, Any]:
    """What a run's manifest says of its judge's calibration and of human labels; JSON-like."""
    known, labels = trust.calibration, trust.labels
    return {
        "calibration": known.model_dump(mode="json") if known else None,
        "human_labels": {"file": labels.path.name, "labels": len(labels.labels)}
        if labels
        else None,
    }


def candidate_name(options: Options) -> str:
    """The candidate as calibrations know it: recorded answers by their file's name."""
    model = options.candidate
    return model.path.stem if isinstance(model, Replay) else model.name


def _where(gate: Gate) -> str:
    return f"{gate.source}: {gate.id}"
