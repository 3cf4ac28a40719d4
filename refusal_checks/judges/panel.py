"""Which judges read which answers: a benchmark's way of judging, done by the judges of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from refusal_checks import judges
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.suites import bundled
from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.verdicts import Rated
from refusal_checks.judges import rules
from refusal_checks.judges.judge import Judge, JudgeKind, JudgeSetup
from refusal_checks.judges.trust import canary, gradient
from refusal_checks.models.names import Rule
from refusal_checks.models.recordings.recording import ReplayCandidate

Panel = tuple[Judge, ...]
"""Judges with different names, who decide by majority, or as a cascade (see ``cascade``)."""


class JudgingMethod(NamedTuple):
    kind: str  # of judge, by name
    max_answer_chars: int | None = (
        None  # shown of an answer; None leaves the run's setting
    )
    category_guide: Path | None = None  # see ``Benchmark``

    @property
    def judges_refusal(self) -> bool:
        return judges.discover()[self.kind].judges_refusal


def ways(
    benchmarks: Mapping[str, Benchmark], with_canary: bool
) -> dict[str, JudgingMethod]:
    """How each benchmark is judged and, under the names of ``check_of``, what checks its judges.

    Without benchmarks, the canary is of this package's own judges of refusal.
    """
    how: dict[str, JudgingMethod] = {}
    kinds: dict[str, JudgeKind] = {}
    for name, benchmark in benchmarks.items():
        kind = judges.kind_of(benchmark)
        how[name] = JudgingMethod(
            kind.name, benchmark.max_answer_chars, benchmark.category_guide
        )
        if name != bundled.GRADIENT.name:  # it is such a check itself
            kinds[kind.name] = kind
    if not benchmarks:
        kinds = {
            name: kind
            for name, kind in judges.discover().items()
            if kind.judges_refusal
        }
    for kind in kinds.values():
        if kind.meets_canary and with_canary:
            how[check_of(kind)] = JudgingMethod(kind.name)
        elif kind.verdicts is Rated:
            how[check_of(kind)] = JudgingMethod(
                kind.name, category_guide=bundled.GRADIENT.category_guide
            )
    return how


def check_of(kind: JudgeKind) -> str:
    """The name among benchmarks of what checks judges of a kind; empty if nothing does."""
    if kind.meets_canary:
        return canary.name_for(way_of(kind))
    return gradient.name_for(kind.name) if kind.verdicts is Rated else ""


def exchanges(check: str) -> tuple[Sequence[Prompt], ReplayCandidate]:
    """The requests and the recorded answers that a check is made of, by its name."""
    if canary.by_way({check: check}):
        return canary.plan(), canary.candidate()
    return gradient.plan(), gradient.candidate()


def is_check(name: str) -> bool:
    """True for the names of ``check_of``, which no benchmark can have."""
    return name.startswith("[")


def way_of(kind: JudgeKind) -> str:
    """The way of judging that a check of refusals is of, see ``canary.Check``."""
    return "" if kind.judges_refusal else kind.name


def panels(
    ways: Mapping[str, JudgingMethod],
    named: Sequence[JudgeSetup | Rule],
    is_recorded: bool,
) -> dict[str, Panel]:
    """The judges of each benchmark; benchmarks that are judged in the same way share them.

    ``named`` is what each ``--judge`` names, in order. Only recorded answers may have labels.
    """
    by_way: dict[JudgingMethod, Panel] = {}
    benchmarks = [name for name in ways if not is_check(name)]
    for way in dict.fromkeys(ways.values()):
        try:
            by_way[way] = _panel(way, named, is_recorded)
        except ModelError as fault:
            if "this benchmark" not in str(fault):
                raise
            judged = ", ".join(other for other in benchmarks if ways[other] == way)
            raise ModelError(f"{judged}: {fault}") from None
    left = [name for name in benchmarks if not ways[name].judges_refusal]
    for one in named:
        if left and isinstance(one, JudgeSetup) and one.is_classifier:
            others = dict.fromkeys(
                judge.name for name in left for judge in by_way[ways[name]]
            )
            one.note(
                f"it judges refusals only; {', '.join(others)} alone: {', '.join(left)}"
            )
    return {name: by_way[way] for name, way in ways.items()}


def _panel(
    way: JudgingMethod, named: Sequence[JudgeSetup | Rule], is_recorded: bool
) -> Panel:
    """The judges of one kind, each name once; if none is named for it, one without a model."""
    kind = judges.discover()[way.kind]
    models = [one for one in named if isinstance(one, JudgeSetup)]
    able = [one for one in models if kind.judges_refusal or not one.is_classifier]
    if models and not able and len(models) == len(named):
        raise ModelError(
            f"name a judge model beside {models[0].name} with a second --judge, or "
            "leave them out with -k: it says refusal or compliance, and this benchmark asks for "
            "more"
        )
    seated: list[Judge] = []
    for one in named:
        if isinstance(one, JudgeSetup):
            if one in able:
                most = way.max_answer_chars
                update = {} if most is None else {"max_answer_chars": most}
                sampling = one.sampling.model_copy(update=update)
                made = replace(
                    one, sampling=sampling, category_guide=way.category_guide
                )
                built = kind.build(made)
                if (
                    isinstance(built, Judge) and not built.model_identity
                ):  # of an extension
                    built.model_identity = one.model_identity
                    built.is_attached = one.running
                seated.append(built)
        elif one.name == rules.LabelsJudge.name:
            # Recorded degrees and scores yield to a model that is named.
            if kind.judges_refusal or (kind.verdicts in rules.READERS and not able):
                if not is_recorded:
                    raise ModelError(
                        "--judge labels needs recorded answers: --candidate replay:FILE"
                    )
                seated.append(rules.LabelsJudge(kind.verdicts))
        elif kind.judges_refusal:
            seated.append(rules.JUDGES[one.name]())
    panel = tuple(
        {judge.name: judge for judge in seated or [kind.build(None)]}.values()
    )
    if strangers := [judge for judge in panel if not isinstance(judge, Judge)]:
        raise ModelError(
            f"way of judging {kind.name}: make {type(strangers[0]).__name__} a subclass of "
            "refusal_checks.Judge, which has defaults for all but name and judge"
        )
    seen: dict[
        str, str
    ] = {}  # one model can have two names, such as its id and its folder
    for judge in panel:
        if (
            judge.identity is not None
            and seen.setdefault(judge.identity, judge.name) != judge.name
        ):
            raise ModelError(
                f"--judge {judge.name}: the same judge as {seen[judge.identity]}, so its vote "
                "would count twice; give each its own template_variables or --judge-prompt"
            )
    return panel
