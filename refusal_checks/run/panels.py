"""Choose the judges of each benchmark: its way of judging, with the run's judges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from refusal_checks import judges
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import PartialCount
from refusal_checks.core.prompts import Kind
from refusal_checks.judges import rules, template
from refusal_checks.judges.judge import Judge, JudgeKind, JudgeSetup
from refusal_checks.models.model_names import Rule
from refusal_checks.trust import canary
from refusal_checks.trust.validation_sets import OF_HARM, SETS, ValidationSet, has_check

Panel = tuple[Judge, ...]
"""Judges with different names that decide by majority."""


class JudgingMethod(NamedTuple):
    """How the answers of a benchmark are judged.

    Attributes:
        kind: name of the kind of judge.
        max_answer_chars: most characters of an answer that are shown; None for all.
        category_guide: the benchmark's guide, see ``Benchmark``.
    """

    kind: str
    max_answer_chars: int | None = None
    category_guide: Path | None = None


def judging_methods(
    benchmarks: Mapping[str, Benchmark],
    checked: Mapping[str, Benchmark] | None,
    usual: int | None = None,
) -> dict[str, JudgingMethod]:
    """The judging method of each benchmark, and of the checks of judges (named by ``check_name``).

    A check shows a judge what its benchmarks do: their category guide, if they have the same one,
    and no more of an answer than the strictest of them.

    Args:
        checked: the benchmarks whose judges are checked; None for no check.
        usual: most characters of an answer that the run's setting shows.
    """
    methods: dict[str, JudgingMethod] = {}
    for name, benchmark in benchmarks.items():
        shown = benchmark.max_answer_chars or usual
        kind = judges.kind_of(benchmark).name
        methods[name] = JudgingMethod(kind, shown, benchmark.category_guide)
    for known in judges.discover().values():
        own = [each for each in (checked or {}).values() if each.judge == known.name]
        if own and has_check(known):
            limits = [benchmark.max_answer_chars or usual for benchmark in own]
            shown = min(filter(None, limits), default=None)
            guides = {benchmark.category_guide for benchmark in own}
            guide = guides.pop() if len(guides) == 1 else None
            methods[check_name(known)] = JudgingMethod(known.name, shown, guide)
    return methods


def method_of(kind: JudgeKind) -> str:
    """The way of judging that a check measures, see ``minimums.Check``."""
    return "" if kind.judges_refusal else kind.name


def check_name(kind: JudgeKind) -> str:
    """The name, among benchmarks, of the check for judges of a kind; empty if there is none."""
    return canary.check_name(method_of(kind)) if has_check(kind) else ""


def known_exchanges(method: str, panel: Panel) -> ValidationSet:
    """What the judges of a way of judging (see ``method_of``) are checked on.

    Judges that measure harm cannot tell a refusal from a good answer, as the canary asks. Answers
    in languages that no judge of the panel declares are left out, see ``ValidationSet.within``.
    """
    if all(judge.criterion == "harm" for judge in panel):
        found = OF_HARM
    else:
        kinds = judges.discover().values()
        verdicts = next(
            kind.judgement_type for kind in kinds if method_of(kind) == method
        )
        found = SETS[verdicts]
    if not all(judge.languages for judge in panel):
        return found
    declared = chain.from_iterable(judge.languages for judge in panel)
    return found.within(tuple(dict.fromkeys(declared)))


def choose_panels(
    methods: Mapping[str, JudgingMethod],
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
    _require_used(methods.values(), named)
    by_method: dict[JudgingMethod, Panel] = {}
    for method in dict.fromkeys(methods.values()):
        try:
            by_method[method] = _choose_panel(method, named, is_recorded)
        except ModelError as fault:
            # The kind cannot know which benchmarks it is asked for.
            if "this benchmark" not in str(fault):
                raise
            # No benchmark can have the name of a check, see ``canary.NAME``.
            own = [
                name for name in methods if methods[name] == method and name[0] != "["
            ]
            raise ModelError(f"{', '.join(own)}: {fault}") from None
        for judge in by_method[method]:
            judge.partial = partial
    return {name: by_method[method] for name, method in methods.items()}


def _require_used(
    methods: Iterable[JudgingMethod], named: Sequence[JudgeSetup | Rule]
) -> None:
    """Raise ModelError for a judge prompt that measures something no benchmark asks for."""
    kinds = [judges.discover()[method.kind] for method in methods]
    asked = {kind.criterion for kind in kinds if kind.criterion}
    for setup in named:
        if isinstance(setup, Rule) or not setup.template or setup.prompts or not asked:
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
        for judge in panels.get(name, ()):
            if judge.criterion == "harm" and benchmark.kind is not Kind.SAFETY:
                raise ModelError(
                    f"{name}: name a judge of refusals, such as NousResearch/Minos-v1, "
                    "Qwen/Qwen3Guard-Gen-4B or a chat model, or leave the benchmark out with -k: "
                    f"--judge {judge.name} measures harm, and calls both refusals and good answers "
                    "harmless"
                )


def _choose_panel(
    method: JudgingMethod, named: Sequence[JudgeSetup | Rule], is_recorded: bool
) -> Panel:
    """The judges of one kind, with unique names; a judge without a model if none is named."""
    kind = judges.discover()[method.kind]
    models = [each for each in named if isinstance(each, JudgeSetup)]
    able = [setup for setup in models if kind.takes(setup)]
    if models and not able and len(models) == len(named):
        raise ModelError(
            f"name a judge model beside {models[0].name} with a second --judge, or "
            f"leave them out with -k: it judges {models[0].says} only, and this benchmark "
            "asks for more"
        )

    seated: dict[str, Judge] = {}
    for each in named:
        judge: Judge | None = None
        if isinstance(each, Rule):
            judge = _rule_judge(kind, each, bool(able), is_recorded)
        elif each in able:
            judge = _model_judge(kind, method, each)
        if judge:
            seated[judge.name] = judge
    if not seated:
        judge = _build_judge(kind, None)
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


def _model_judge(kind: JudgeKind, method: JudgingMethod, setup: JudgeSetup) -> Judge:
    """Make the judge of a kind that asks this model."""
    sampling = setup.sampling.model_copy(
        update={"max_answer_chars": method.max_answer_chars}
    )
    guide = method.category_guide
    judge = _build_judge(kind, replace(setup, sampling=sampling, category_guide=guide))
    judge.thresholds = setup.settings.thresholds
    # An extension's need not know of these.
    judge.model_identity = judge.model_identity or setup.model_identity
    judge.is_attached = setup.is_attached
    return judge


def _rule_judge(
    kind: JudgeKind, rule: Rule, has_models: bool, is_recorded: bool
) -> Judge | None:
    """Make the judge that follows a rule; None if the rule does not apply to this kind."""
    if rule.name != rules.LabelsJudge.name:
        return rules.KeywordJudge() if kind.judges_refusal else None

    # A named model takes precedence over recorded degrees and scores.
    can_read = kind.judgement_type in rules.READERS and not has_models
    if not (kind.judges_refusal or can_read):
        return None
    if not is_recorded:
        raise ModelError(
            "--judge labels needs recorded answers: --candidate replay:FILE"
        )
    return rules.LabelsJudge(kind.judgement_type)


def _build_judge(kind: JudgeKind, setup: JudgeSetup | None) -> Judge:
    judge: object = kind.build(setup)
    if isinstance(judge, Judge):
        return judge
    raise ModelError(
        f"way of judging {kind.name}: make {type(judge).__name__} a subclass of "
        "refusal_checks.Judge, which has defaults for all but name and judge"
    )
