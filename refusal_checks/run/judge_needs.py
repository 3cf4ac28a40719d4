"""What a run asks of its judges that not all judges can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refusal_checks.core.errors import UserError
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import cascade
from refusal_checks.judges.base import reasoned
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.plan import Judges


def require_several(gates: Sequence[Gate], judges: Judges) -> None:
    """Refuse gates that compare several judges where there is one.

    Raises:
        UserError: names the gate and the remedy.
    """
    for gate in gates:
        panel = judges[gate.benchmark]
        if gate.metric == disagreement_rate.name and len(panel) == 1:
            raise UserError(
                f"{gate.source}: [{gate.benchmark}] {gate.metric}: give --judge more than once; "
                "it compares several judges"
            )
        if gate.metric == disagreement_rate.name and cascade.of(panel):
            raise UserError(
                f"{gate.source}: [{gate.benchmark}] {gate.metric}: name a third --judge, so that "
                "each reads every answer: beside bundled a second one reads only some"
            )


def require_whole(options: Options, judges: Judges) -> None:
    """Refuse to stop early where a second judge's sample corrects the rates.

    Raises:
        UserError: both are asked for.
    """
    if options.stop_early and any(map(cascade.of, judges.values())):
        raise UserError(
            "--judge bundled with a second judge: leave out --stop-early, because the second "
            "judge's sample is one of whole benchmarks"
        )


def note_whole(options: Options, judges: Judges, note: Callable[[str], None]) -> None:
    """Tell which judges ``--rationales offenders`` changes nothing for.

    Such judges write no reasons, or give them as part of the verdict. It is a note, not an error: a
    repository may set the option once, whatever judge it uses.
    """
    if options.rationales == "all":
        return
    whole: dict[str, list[str]] = {}
    for benchmark, panel in judges.items():
        for judge in panel:
            if not reasoned(judge):
                whole.setdefault(judge.name, []).append(benchmark)
    for name, benchmarks in whole.items():
        where = "" if len(benchmarks) == len(judges) else f" in {', '.join(benchmarks)}"
        note(
            f"judge {name}: --rationales offenders changes nothing{where}: only judges of refusals "
            "that write their reasons can leave them out"
        )
