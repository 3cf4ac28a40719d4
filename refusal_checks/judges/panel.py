"""Choose the judges of each benchmark: its way of judging, carried out by the run's judges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from refusal_checks import judges
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.verdicts import PartialCount
from refusal_checks.judges import rules, template
from refusal_checks.judges.judge import Judge, JudgeKind, JudgeSetup
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.check_sets import OF_HARM, SETS, CheckSet
from refusal_checks.models.names import Rule

Panel = tuple[Judge, ...]
"""Judges with different names, who decide by majority."""


class JudgingMethod(NamedTuple):
    """How the answers of a benchmark are judged.

    Attributes:
        kind: name of the kind of judge.
        max_answer_chars: most characters of an answer that are shown; None for the run's setting.
        category_guide: the benchmark's guide, see ``Benchmark``.
    """

    kind: str
    max_answer_chars: int | None = None
    category_guide: Path | None = None

    @property
    def judges_refusal(self) -> bool:
        return judges.discover()[self.kind].judges_refusal


def ways(
    benchmarks: Mapping[str, Benchmark],
    checked: Mapping[str, Benchmark] | None,
    usual: int | None = None,
) -> dict[str, JudgingMethod]:
    """The judging method of each benchmark, and of the checks of judges (named by ``check_of``).

    A check shows a judge what its benchmarks do: their category guide, if they have the same one,
    and no more of an answer than the strictest of them.

    Args:
        checked: the benchmarks whose judges are checked; None for no check. If there are none,
            the package's own judges of refusal are checked.
        usual: most characters of an answer that the run's setting shows.
    """
    methods: dict[str, JudgingMethod] = {}
    for name, benchmark in benchmarks.items():
        methods[name] = JudgingMethod(
            judges.kind_of(benchmark).name,
            benchmark.max_answer_chars,
            benchmark.category_guide,
        )
    if checked is None:
        return methods

    for kind in judges.discover().values():
        of_kind = [each for each in checked.values() if each.judge == kind.name]
        is_asked = bool(of_kind) if checked else kind.judges_refusal
        if is_asked and kind.meets_canary:
            guides = {benchmark.category_guide for benchmark in of_kind}
            guide = guides.pop() if len(guides) == 1 else None
            shown = strictest_limit(of_kind, kind, usual)
            methods[check_of(kind)] = JudgingMethod(kind.name, shown, guide)
    return methods


def strictest_limit(
    benchmarks: Iterable[Benchmark], kind: JudgeKind, usual: int | None
) -> int | None:
    """The fewest characters of an answer that judges of a kind see; None if that is usual.

    Args:
        usual: the run's own setting, for benchmarks without one.
    """
    limits = [
        benchmark.max_answer_chars or usual
        for benchmark in benchmarks
        if benchmark.judge == kind.name
    ]
    lowest = min((limit for limit in limits if limit is not None), default=usual)
    return None if lowest == usual else lowest


def check_of(kind: JudgeKind) -> str:
    """The name, among benchmarks, of the check for judges of a kind; empty if there is none."""
    return canary.name_for(way_of(kind)) if kind.meets_canary else ""


def exchanges(way: str, panel: Panel) -> CheckSet:
    """What the judges of a way of judging (see ``way_of``) are checked on.

    Judges that measure harm cannot tell a refusal from a good answer, as the canary asks. Answers
    in languages that no judge of the panel declares are left out, see ``CheckSet.within``.
    """
    if all(judge.criterion == "harm" for judge in panel):
        found = OF_HARM
    else:
        kinds = judges.discover().values()
        verdicts = next(kind.verdicts for kind in kinds if way_of(kind) == way)
        found = SETS[verdicts]
    if not all(judge.languages for judge in panel):
        return found
    declared = chain.from_iterable(judge.languages for judge in panel)
    return found.within(tuple(dict.fromkeys(declared)))


def is_check(name: str) -> bool:
    """True for names given by ``check_of``, which no benchmark can have."""
    # No benchmark can have this name, see ``canary.NAME``.
    return name.startswith("[")


def way_of(kind: JudgeKind) -> str:
    """The way of judging that a check measures, see ``floors.Check``."""
    return "" if kind.judges_refusal else kind.name


def panels(
    ways: Mapping[str, JudgingMethod],
    named: Sequence[JudgeSetup | Rule],
    is_recorded: bool,
    partial: PartialCount = "refusal",
) -> dict[str, Panel]:
    """Make the judges of each benchmark; benchmarks with the same judging method share them.

    Args:
        named: the judge that each ``--judge`` names, in order.
        is_recorded: True if the answers are recorded; only such answers may have labels.
        partial: what partial refusals count as.

    Raises:
        ModelError: no named judge can judge a benchmark, or a judge would vote twice.
    """
    setups = [setup for setup in named if isinstance(setup, JudgeSetup)]
    _require_used(ways, setups)
    panels: dict[str, Panel] = {}
    for method in dict.fromkeys(ways.values()):
        of_method = [name for name in ways if ways[name] == method]
        try:
            panel = _panel(method, named, is_recorded)
        except ModelError as fault:
            # The kind cannot know which benchmarks it is asked for.
            if "this benchmark" not in str(fault):
                raise
            judged = ", ".join(name for name in of_method if not is_check(name))
            raise ModelError(f"{judged}: {fault}") from None
        for judge in panel:
            judge.partial = partial
        panels |= dict.fromkeys(of_method, panel)
    for setup in setups:
        kinds = judges.discover()
        beyond = [
            name
            for name, method in ways.items()
            if not is_check(name) and not kinds[method.kind].takes(setup)
        ]
        if beyond:
            others = {judge.name: "" for name in beyond for judge in panels[name]}
            setup.note(
                f"it judges {setup.says} only; {', '.join(others)} alone: {', '.join(beyond)}"
            )
    return {name: panels[name] for name in ways}


def _require_used(
    ways: Mapping[str, JudgingMethod], setups: Sequence[JudgeSetup]
) -> None:
    """Raise ModelError for a judge prompt that measures what no benchmark of the run asks for."""
    kinds = [judges.discover()[method.kind] for method in ways.values()]
    asked = {kind.criterion for kind in kinds if kind.criterion}
    for setup in setups:
        if not setup.template or setup.prompts or not asked:
            continue
        metadata = template.load(setup.template).metadata
        if not any(metadata.can_judge(criterion) for criterion in asked):
            raise ModelError(
                f"judge.prompt {setup.template}: leave it out, or name a prompt that measures "
                f"{' or '.join(sorted(asked))}: it measures {metadata.measures}, which no "
                "benchmark of this run asks for"
            )


def require_decidable(
    benchmarks: Mapping[str, Benchmark], panels: Mapping[str, Panel]
) -> None:
    """Raise ModelError for a judge of harm where a harmless answer need not be a refusal.

    Such a judge calls a refusal and a good answer alike harmless, so it can tell refusals only
    among prompts that must be refused.
    """
    for name, benchmark in benchmarks.items():
        if benchmark.kind is Kind.SAFETY:
            continue
        for judge in panels.get(name, ()):
            if judge.criterion == "harm":
                raise ModelError(
                    f"{name}: name a judge of refusals, such as NousResearch/Minos-v1, "
                    "Qwen/Qwen3Guard-Gen-4B or a chat model, or leave the benchmark out with -k: "
                    f"--judge {judge.name} measures harm, and calls a refusal and a good answer "
                    "alike harmless"
                )


def _panel(
    method: JudgingMethod, named: Sequence[JudgeSetup | Rule], is_recorded: bool
) -> Panel:
    """The judges of one kind, each name once; a judge without a model if none is named."""
    kind = judges.discover()[method.kind]
    setups = [setup for setup in named if isinstance(setup, JudgeSetup)]
    able = [setup for setup in setups if kind.takes(setup)]
    if setups and not able and len(setups) == len(named):
        raise ModelError(
            f"name a judge model beside {setups[0].name} with a second --judge, or "
            f"leave them out with -k: it judges {setups[0].says} only, and this benchmark "
            "asks for more"
        )

    seated: dict[str, Judge] = {}
    for name in named:
        judge: Judge | None = None
        if isinstance(name, Rule):
            judge = _ruling(kind, name, bool(able), is_recorded)
        elif name in able:
            judge = _asking(kind, method, name)
        if judge:
            seated[judge.name] = judge
    if not seated:
        judge = _built(kind, None)
        seated[judge.name] = judge

    by_identity: dict[str, str] = {}
    for judge in seated.values():
        # One model may have two names, such as its id and its folder.
        first = by_identity.setdefault(judge.identity or judge.name, judge.name)
        if first != judge.name:
            raise ModelError(
                f"--judge {judge.name}: give each its own template_variables or judge.prompt: "
                f"it is the same judge as {first}, so its vote would count twice"
            )
    return tuple(seated.values())


def _asking(kind: JudgeKind, method: JudgingMethod, setup: JudgeSetup) -> Judge:
    """Make the judge of a kind that asks this model."""
    sampling = setup.sampling
    if method.max_answer_chars is not None:
        update = {"max_answer_chars": method.max_answer_chars}
        sampling = sampling.model_copy(update=update)
    guide = method.category_guide
    judge = _built(kind, replace(setup, sampling=sampling, category_guide=guide))
    judge.thresholds = setup.thresholds
    # An extension's need not know of these.
    judge.model_identity = judge.model_identity or setup.model_identity
    judge.is_attached = setup.is_attached
    return judge


def _ruling(
    kind: JudgeKind, rule: Rule, has_models: bool, is_recorded: bool
) -> Judge | None:
    """Make the judge that follows a rule; None if the rule does not apply to this kind."""
    if rule.name != rules.LabelsJudge.name:
        return rules.KeywordJudge() if kind.judges_refusal else None

    # A named model takes precedence over recorded degrees and scores.
    can_read = kind.verdicts in rules.READERS and not has_models
    if not (kind.judges_refusal or can_read):
        return None
    if not is_recorded:
        raise ModelError(
            "--judge labels needs recorded answers: --candidate replay:FILE"
        )
    return rules.LabelsJudge(kind.verdicts)


def _built(kind: JudgeKind, setup: JudgeSetup | None) -> Judge:
    judge: object = kind.build(setup)
    if isinstance(judge, Judge):
        return judge
    raise ModelError(
        f"way of judging {kind.name}: make {type(judge).__name__} a subclass of "
        "refusal_checks.Judge, which has defaults for all but name and judge"
    )
