"""The parts of a run, built from its options: prompts, candidate, judges and servers."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark, attacks, choices, hub, pinned
from refusal_checks.benchmarks.attacks import rewrite
from refusal_checks.benchmarks.attacks.base import Given
from refusal_checks.benchmarks.base import stratified
from refusal_checks.core.errors import (
    DataError,
    ModelError,
    ThresholdError,
    UserError,
    require_known,
)
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import Cascading, ClassifierForm
from refusal_checks.core.text import clean
from refusal_checks.engines import kinds, needs
from refusal_checks.engines.kinds import require_program
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.config import (
    CandidateConfig,
    JudgeConfig,
    NamedJudge,
    RunConfig,
    changed,
)
from refusal_checks.evaluation.planning import Judges, Plan
from refusal_checks.gates.gate import EVERY, Gate
from refusal_checks.judges import cascade, classifier, panel
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.panel import Way
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.attaching import try_prefill
from refusal_checks.models.client.client import Client
from refusal_checks.models.files import Classes, classes, special_tokens
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.replay import Recording
from refusal_checks.models.spec import Attached, Model, Replay, Rule, Served, model_identity

Note = Callable[[str], None]
"""Takes one line: for the terminal, or about how the verdicts came about."""


class Parts(NamedTuple):
    """The parts of a run; nothing is started yet.

    Attributes:
        left_out: how many prompts each attack could not rewrite, by benchmark.
        usual: prompts of a run without ``--limit`` and with all answers recorded, by benchmark.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    engines: Servers
    left_out: Mapping[str, int] = MappingProxyType({})
    usual: Mapping[str, int] = MappingProxyType({})


def assemble(
    options: RunConfig, gates: Sequence[Gate], engines: Servers, say: Note, note: Note
) -> Parts:
    """Load and check everything that a run needs; notes say how verdicts came about."""
    answering, judging, known = options.answering, options.judging, options.benchmarks
    model = answering.model
    attacked = next((gate for gate in gates if known[gate.benchmark].attack), None)
    if isinstance(model, Replay) and attacked:
        raise UserError(
            f'{model.name}: deselect {attacked.id} and others under attack (-m "not attack"), '
            "or name a model: recorded answers were given to plain prompts"
        )
    if engines.are_live:
        _require_loadable("--candidate", model, say)
        for judge in judging.models:
            _require_loadable("--judge", judge, say)
    plan, left_out, usual, recording = load_plan(options, gates, note)
    scoring = options.multiple_choice.scoring
    if recording:
        candidate = _replayed(options, recording, plan, say)
    else:
        candidate = _served(answering, scoring, engines, plan, note)
    names = dict.fromkeys([*plan, *(gate.benchmark for gate in gates)])
    ways = panel.ways({name: known[name] for name in names}, bool(options.trust.floors))
    form, is_recorded = options.trust.form, recording is not None
    judges = judge_panels(judging, ways, engines, note, is_recorded, form)
    require_cascade(judging.cascade, ways, judges)
    for name, prompts in plan.items():
        if recording and any(isinstance(judge, LabelsJudge) for judge in judges[name]):
            recording.require_labels(name, prompts)
    for gate in (gate for gate in gates if gate.metric == disagreement_rate.name):
        named = f"{gate.source}: [{gate.benchmark}] {gate.metric}"
        if len(judges[gate.benchmark]) == 1:
            raise UserError(f"{named}: give --judge more than once; it compares several judges")
        if cascade.of(judges[gate.benchmark]):
            raise UserError(
                f"{named}: name a third --judge, so that each reads every answer: beside bundled "
                "a second one reads only some"
            )
    if options.limits.stop_early and any(map(cascade.of, judges.values())):
        raise UserError(
            "judges in a cascade: leave out --stop-early, because the second judge's sample is one "
            "of whole benchmarks"
        )
    if judging.rationales != "all":
        _note_without_reasons(judges, note)
    return Parts(plan, candidate, judges, engines, left_out, usual)


def _require_loadable(option: str, model: Model, say: Note) -> None:
    """Refuse a model that its engine could not load or ask; say what may be in its way."""
    if isinstance(model, Served):
        for need in needs.require_none(model, option):
            say(need)


def convert(models: Iterable[Model], say: Note) -> None:
    wanted = [model for model in models if isinstance(model, Served) and model.conversion]
    for model in wanted:
        require_program(kinds.get(model.engine), model.program)
    for conversion in dict.fromkeys(model.conversion for model in wanted):
        if conversion:
            conversion.make(say)


# Prompts.


def prompts_of(benchmark: Benchmark, plan: Plan) -> Sequence[Prompt]:
    """A benchmark's prompts; of one that stands for all attacks, the prompts under each."""
    return [prompt for name in benchmark.under or (benchmark.name,) for prompt in plan[name]]


def load_plan(
    options: RunConfig, gates: Sequence[Gate], note: Note
) -> tuple[Plan, Mapping[str, int], Mapping[str, int], Recording | None]:
    """The prompts of the gates' benchmarks: loaded, limited, and rewritten by attacks.

    For a benchmark that stands for all attacks, those under each are loaded. Of a part of a
    recording, only what it has answers to. ``left_out`` and ``usual`` of ``Parts`` come with the
    plan, and the recording, if there is one, with its answers to these prompts.
    """
    known = options.benchmarks
    several = (known[gate.benchmark].under or (gate.benchmark,) for gate in gates)
    names = dict.fromkeys(name for each in several for name in each)
    plain = {name: known[name].plain or name for name in names}
    loaded = {}
    with hub.leaving_no_copy(options.redact):
        for name in set(plain.values()):
            prompts = pinned.load_checked(known[name], options.mirror)
            loaded[name] = choices.mark(prompts, known[name], options.multiple_choice)
    whole: Plan = {name: loaded[plain[name]] for name in names}
    usual = {name: min(len(whole[name]), known[name].usual_limit or sys.maxsize) for name in names}
    for gate in gates:
        if gate.group_kind is not None:
            groups = [prompt.groups for prompt in prompts_of(known[gate.benchmark], whole)]
            kinds_known = {kind for each in groups for kind in each}
            # All of the package's own benchmarks have groups; in a user's file they are columns.
            column = f'; name the column: groups = {{ {gate.group_kind} = "..." }}'
            own = "" if kinds_known else column
            require_known(gate.group_kind, kinds_known, _table(gate), "kind of group", remedy=own)
            values = {each.get(gate.group_kind, "") for each in groups} - {""}
            if gate.is_on_every_group and EVERY in values:
                raise DataError(
                    f'{_table(gate)}: give the {gate.group_kind} "{EVERY}" of the data another '
                    "name: it stands for every group"
                )
            if not gate.is_on_every_group:
                require_known(str(gate.group), values, _table(gate), gate.group_kind)
            elif values <= {*gate.apart}:
                raise ThresholdError(
                    f"{_table(gate)}: remove it: every {gate.group_kind} has a table of its own "
                    f"with {gate.metric}"
                )
    answering, recording = options.answering, None
    if isinstance(answering.model, Replay):
        wanted = (prompt for prompts in whole.values() for prompt in prompts)
        how = replace(answering.replay, reasoning_end=answering.model.reasoning_end)
        recording = replay.read(answering.model.path, how, wanted)
    if recording and answering.replay.partial:
        whole = _recorded(recording, whole, note)
        if empty := _without_prompts(known, gates, whole):
            raise DataError(
                f"{recording.path}: deselect {empty.id}: its group has no recorded answer"
            )
    plan: dict[str, Sequence[Prompt]] = {
        name: stratified(prompts, known[name].limit) for name, prompts in whole.items()
    }
    if empty := _without_prompts(known, gates, plan):
        raise UserError(
            f"{_table(empty)}: raise the limit of {known[empty.benchmark].limit} prompts, which "
            "leaves none of this group, or deselect the gate"
        )
    left_out: dict[str, int] = {}
    unfit: dict[str, str] = {}
    for name in [name for name in plan if known[name].attack]:
        attack = attacks.find(known[name].attack, name)
        asked, unfit[name] = len(plan[name]), attack.unfit
        plan[name], lost = rewrite(attack, plan[name], Given(whole[name]))
        if lost:
            left_out[name] = len(lost)
            note(
                f"{name}: {len(lost)} of {asked} prompts are left out, because the "
                f"attack cannot rewrite them ({attack.unfit or 'it returns them unchanged'}); "
                f"the first is {clean(lost[0].id, 60)}"
            )
    if empty := _without_prompts(known, gates, plan):
        why = unfit.get(empty.benchmark, "")
        raise DataError(
            f"{empty.source}: deselect {empty.id}, or take the attack out: it can rewrite none "
            f"of the prompts{why and f' ({why})'}"
        )
    return plan, left_out, usual, recording


def _table(gate: Gate) -> str:
    group = f'"{EVERY}"' if gate.is_on_every_group else gate.group
    return f"{gate.source}: [{gate.benchmark}.{gate.group_kind}.{group}]"


def _without_prompts(
    known: Mapping[str, Benchmark], gates: Sequence[Gate], plan: Plan
) -> Gate | None:
    for gate in gates:
        if not any(map(gate.looks_at, prompts_of(known[gate.benchmark], plan))):
            return gate
    return None


def _recorded(recording: Recording, whole: Plan, note: Note) -> Plan:
    """The prompts that have a recorded answer; the user is told how many these are."""
    plan = {name: tuple(filter(recording.answers, prompts)) for name, prompts in whole.items()}
    for name, prompts in plan.items():
        if not prompts:
            raise DataError(
                f"{recording.path}: deselect {name}: none of its {len(whole[name])} prompts has "
                "a recorded answer"
            )
        if len(prompts) < len(whole[name]):
            note(
                f"{name}: its figures are of the {len(prompts)} prompts of {len(whole[name])} "
                f"that {recording.path.name} has answers to"
            )
    return plan


# The candidate.


def _served(
    answering: CandidateConfig, scoring: str, engines: Servers, plan: Plan, note: Note
) -> Candidate:
    model = answering.model
    assert not isinstance(model, Replay), "recorded answers are read, not served"
    if isinstance(model, Served) and classes(model):
        raise ModelError(
            f"--candidate {model.name}: a classifier writes no answers; name it with --judge"
        )
    client = engines.connect(model, "--candidate", answering.number)
    continues = any(prompt.is_continued for prompts in plan.values() for prompt in prompts)
    if continues and engines.are_live and isinstance(model, Attached):
        try_prefill(client)
    identity = model_identity(model, client.model)
    kind = ServedCandidate if scoring == "text" else OptionScorer
    is_attached = engines.are_live and isinstance(model, Attached)
    served = kind(model.name, client, answering.sampling, identity, is_attached=is_attached)
    lacking = client.capabilities.missing(*(["prefill"] if continues else []))
    for line in (*served.remarks, *lacking.values()):
        note(f"candidate {model.name}: {line}")
    return served


def _replayed(options: RunConfig, recording: Recording, plan: Plan, say: Note) -> Candidate:
    scoring = options.multiple_choice.scoring
    if scoring == "logprob" and any(p.options for prompts in plan.values() for p in prompts):
        raise ModelError(
            "multiple_choice.scoring=logprob: use multiple_choice.scoring=text; recorded answers "
            "have no probabilities"
        )
    for benchmark, prompts in plan.items():
        recording.require(benchmark, prompts, options.redact)
        where = f"{recording.path}: {benchmark}"
        if reworded := recording.reworded(prompts):
            first = ", ".join(clean(prompt_id, 60) for prompt_id in reworded[:3])
            say(
                f"{where}: {len(reworded)} of {len(prompts)} prompts are worded differently there "
                f"(first: {first})"
            )
        if unsent := sum(one.never_asked for p in prompts for one in recording.answers(p)):
            say(
                f"{where}: {unsent} attacks were given up and nothing was sent: --judge labels "
                "counts them as their label says; for any other judge they are invalid"
            )
    return replay.ReplayCandidate(options.answering.model.name, recording)


# The judges.


def judge_panels(
    judging: JudgeConfig,
    ways: Mapping[str, Way],
    engines: Servers,
    note: Note,
    is_recorded: bool,
    form: ClassifierForm | None = None,
) -> Judges:
    """The judges that ``--judge`` names, by what they judge; recorded answers may have labels."""

    def setup(number: int, judge: NamedJudge) -> JudgeSetup | Rule:
        model = judge.model
        if isinstance(model, Rule):
            return model
        client = engines.connect(model, "--judge", number)
        return JudgeSetup(
            name=judge.name,
            client=client,
            model_identity=model_identity(model, client.model),
            sampling=judging.sampling_of(judge),
            template=judge.template,
            running=engines.are_live and isinstance(model, Attached),
            note=lambda line: note(f"judge {judge.name}: {line}"),
            special_tokens=special_tokens(model),
            classes=_classes(model, client),
            form=form,
            cascade=judging.cascade,
            rationales=judging.rationales,
        )

    named = [setup(number, judge) for number, judge in enumerate(judging.judges, 1)]
    return panel.panels(ways, named, is_recorded)


def require_cascade(given: Cascading, ways: Mapping[str, Way], judges: Judges) -> None:
    """Refuse settings of a cascade where no two judges form one."""
    of_refusal = [judges[name] for name, way in ways.items() if way.judges_refusal]
    if of_refusal and not any(map(cascade.of, of_refusal)):
        for name, value in changed(given):
            raise UserError(
                f"judge.cascade.{name}={value}: leave it out, or give --judge twice, bundled or a "
                "classifier and a model: it says when the model is asked"
            )


def _classes(model: Served | Attached, client: Client) -> Classes | None:
    """Of a judge that is a sequence classifier, on an engine that can serve one."""
    if isinstance(model, Attached):
        return Classes() if client.classifies else None
    found = classes(model) or (Classes() if classifier.known(model.path) else None)
    engine = kinds.get(model.engine)
    if found and not engine.classifies:
        raise ModelError(
            f"--judge {model.name}: use --engine vllm: {engine.title} cannot serve a classifier"
        )
    return found


def _note_without_reasons(judges: Judges, note: Note) -> None:
    """Tell which judges ``rationales = "offenders"`` changes nothing for.

    It is a note, not an error: a repository may set the option once, whatever judge it uses.
    """
    whole: dict[str, list[str]] = {}
    asked = {name: judges[name] for name in judges if not panel.is_check(name)}
    for benchmark, judges_of_it in asked.items():
        for judge in judges_of_it:
            if not judge.reasoned:
                whole.setdefault(judge.name, []).append(benchmark)
    for name, benchmarks in whole.items():
        where = "" if len(benchmarks) == len(asked) else f" in {', '.join(benchmarks)}"
        note(
            f"judge {name}: judge.rationales=offenders changes nothing{where}: only judges of "
            "refusals that write their reasons can leave them out"
        )
