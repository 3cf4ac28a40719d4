"""The parts of a run, built from its options: prompts, candidate, judges and servers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark, attacks, choices, pinned
from refusal_checks.benchmarks.attacks import rewrite
from refusal_checks.benchmarks.attacks.base import Given
from refusal_checks.benchmarks.subset import stratified
from refusal_checks.core.errors import DataError, ModelError, UserError, require_known
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import Limits
from refusal_checks.core.text import clean
from refusal_checks.engines import kinds
from refusal_checks.engines.kinds import require_program
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.engines.pool import PoolSettings
from refusal_checks.engines.servers import Servers
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import cascade, panel
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.judges.panel import Way
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.attaching import try_prefill
from refusal_checks.models.client.client import Client
from refusal_checks.models.files import special_tokens
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.replay import Recording
from refusal_checks.models.spec import (
    Attached,
    CandidateModel,
    JudgeModel,
    Replay,
    Rule,
    Served,
    model_identity,
)
from refusal_checks.run.evaluate import Judges, Plan
from refusal_checks.run.options.command_line import Options, Questions
from refusal_checks.run.options.models import Answering, Judging, NamedJudge

Note = Callable[[str], None]
"""Takes one line: for the terminal, or about how the verdicts came about."""


class Parts(NamedTuple):
    """The parts of a run; nothing is started yet.

    Attributes:
        repeats: the same judges with other seeds, one set per repetition (``--judge-repeats``).
        left_out: how many prompts each attack could not rewrite, by benchmark.
        usual: how many prompts a run of all would have, by benchmark.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    engines: Servers
    repeats: tuple[Judges, ...] = ()
    left_out: Mapping[str, int] = MappingProxyType({})
    usual: Mapping[str, int] = MappingProxyType({})


def assemble(
    options: Options, gates: Sequence[Gate], engines: Servers, say: Note, note: Note
) -> Parts:
    """Load and check everything that a run needs.

    Args:
        gates: the selected gates.
        engines: the models' servers.
        say: shows one line to the user.
        note: takes one line that the user must know about how the verdicts came about.

    Raises:
        UserError: data, recorded answers, models or endpoints are not what was asked for.
    """
    answering, judging, questions = options.answering, options.judging, options.questions
    model, scoring = answering.model, questions.multiple_choice.scoring
    recording = None
    if isinstance(model, Replay):
        _require_plain(questions.benchmarks, gates, model.name)
        recording = replay.read(model.path, answering.replay)
    partial_of = recording if answering.replay.partial else None
    plan, left_out, usual = load_plan(questions, gates, note, partial_of)
    if recording:
        candidate = _replayed(model.name, recording, plan, scoring, say)
    else:
        candidate = _served(answering, scoring, engines, plan, note)
    names = dict.fromkeys([*plan, *(gate.benchmark for gate in gates)])
    ways = panel.ways(
        {name: questions.benchmarks[name] for name in names},
        with_canary=bool(options.trust.floors),
    )
    several = [
        judge_panels(judging.reseeded(number), ways, engines, note, recording is not None)
        for number in range(options.trust.repeats)
    ]
    judges = several[0]
    _require_several(gates, judges)
    if options.stop_early and any(map(cascade.of, judges.values())):
        raise UserError(
            "--judge bundled with a second judge: leave out --stop-early, because the second "
            "judge's sample is one of whole benchmarks"
        )
    if judging.rationales != "all":
        _note_without_reasons(judges, note)
    return Parts(plan, candidate, judges, engines, tuple(several[1:]), left_out, usual)


def pool_settings(
    answering: Answering, judging: Judging, limits: Limits, placement: PlacementRequest
) -> PoolSettings:
    """What the engine pool needs to know."""
    return PoolSettings(
        candidate=answering.model,
        judges=judging.models,
        limits=limits,
        sampling=answering.sampling,
        judge_sampling=judging.sampling,
        placement=placement,
    )


def convert(models: Iterable[CandidateModel | JudgeModel], say: Note) -> None:
    """Make the weights of demo models that are not there yet."""
    wanted = [model for model in models if isinstance(model, Served) and model.conversion]
    for model in wanted:
        require_program(kinds.get(model.engine), model.program)
    for conversion in dict.fromkeys(model.conversion for model in wanted):
        if conversion:
            conversion.make(say)


# Prompts.


def evaluated(gates: Iterable[Gate], benchmarks: Mapping[str, Benchmark]) -> tuple[str, ...]:
    """The benchmarks to evaluate: for one that stands for all attacks, those under each."""
    names = (benchmarks[gate.benchmark].under or (gate.benchmark,) for gate in gates)
    return tuple(dict.fromkeys(name for several in names for name in several))


def prompts_of(benchmark: Benchmark, plan: Plan) -> Sequence[Prompt]:
    """A benchmark's prompts; of one that stands for all attacks, the prompts under each."""
    return [prompt for name in benchmark.under or (benchmark.name,) for prompt in plan[name]]


def load_plan(
    questions: Questions, gates: Sequence[Gate], note: Note, recording: Recording | None = None
) -> tuple[Plan, Mapping[str, int], Mapping[str, int]]:
    """The prompts of the gates' benchmarks: loaded, limited, and rewritten by attacks.

    Args:
        recording: leave out what it has no answers to.

    Returns:
        The plan; how many prompts each attack could not rewrite, by benchmark; and how many there
        are without ``--limit`` and with all answers recorded.
    """
    known = questions.benchmarks
    names = evaluated(gates, known)
    plain = {name: known[name].plain or name for name in names}
    loaded = {
        name: choices.mark(
            pinned.load_checked(known[name], questions.mirror),
            known[name],
            questions.multiple_choice,
        )
        for name in set(plain.values())
    }
    whole: Plan = {name: loaded[plain[name]] for name in names}
    usual = {name: min(len(whole[name]), known[name].usual_limit or sys.maxsize) for name in names}
    _require_groups(known, gates, whole)
    if recording:
        whole = _recorded(recording, gates, whole, note)
    limited = {name: stratified(prompts, known[name].limit) for name, prompts in whole.items()}
    for gate in gates:
        about = known[gate.benchmark]
        if not any(map(gate.looks_at, prompts_of(about, limited))):
            raise UserError(
                f"{_table(gate)}: raise the limit of {about.limit} prompts, which leaves none of "
                "this group, or deselect the gate"
            )
    return *_rewritten(known, gates, limited, whole, note), usual


def _table(gate: Gate) -> str:
    return f"{gate.source}: [{gate.benchmark}.{gate.group_kind}.{gate.group}]"


def _require_groups(known: Mapping[str, Benchmark], gates: Sequence[Gate], plan: Plan) -> None:
    for gate in gates:
        if gate.group_kind is None:
            continue
        prompts = prompts_of(known[gate.benchmark], plan)
        require_known(
            gate.group_kind,
            {kind for prompt in prompts for kind in prompt.groups},
            _table(gate),
            "kind of group",
        )
        groups = {prompt.groups.get(gate.group_kind, "") for prompt in prompts} - {""}
        require_known(str(gate.group), groups, _table(gate), gate.group_kind)


def _require_plain(known: Mapping[str, Benchmark], gates: Iterable[Gate], name: str) -> None:
    found = next((gate for gate in gates if known[gate.benchmark].attack), None)
    if found:
        raise UserError(
            f'{name}: deselect {found.id} and others under attack (-m "not attack"), or name a '
            "model: recorded answers were given to plain prompts"
        )


def _recorded(recording: Recording, gates: Sequence[Gate], whole: Plan, note: Note) -> Plan:
    """The prompts that have a recorded answer; the user is told how many these are."""
    plan = {
        name: tuple(prompt for prompt in prompts if recording.answers(prompt))
        for name, prompts in whole.items()
    }
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
    for gate in gates:
        if not any(map(gate.looks_at, plan[gate.benchmark])):
            raise DataError(
                f"{recording.path}: deselect {gate.id}: its group has no recorded answer"
            )
    return plan


def _rewritten(
    known: Mapping[str, Benchmark], gates: Sequence[Gate], plan: Plan, whole: Plan, note: Note
) -> tuple[Plan, Mapping[str, int]]:
    done: dict[str, Sequence[Prompt]] = {}
    left_out: dict[str, int] = {}
    unfit: dict[str, str] = {}
    for name, prompts in plan.items():
        attack = known[name].attack
        done[name] = prompts
        if not attack:
            continue
        found = attacks.find(attack, name)
        unfit[name] = found.unfit
        done[name], lost = rewrite(found, prompts, Given(whole[name]))
        if lost:
            left_out[name] = len(lost)
            note(
                f"{name}: {len(lost)} of {len(prompts)} prompts are left out, because the "
                f"attack cannot rewrite them ({found.unfit or 'it returns them unchanged'}); "
                f"the first is {clean(lost[0].id, 60)}"
            )
    for gate in gates:
        if not any(map(gate.looks_at, prompts_of(known[gate.benchmark], done))):
            why = unfit.get(gate.benchmark, "")
            raise DataError(
                f"{gate.source}: deselect {gate.id}, or take the attack out: it can rewrite none "
                f"of the prompts{why and f' ({why})'}"
            )
    return done, left_out


# The candidate.


def _served(
    answering: Answering, scoring: str, engines: Servers, plan: Plan, note: Note
) -> Candidate:
    model = answering.model
    assert not isinstance(model, Replay), "recorded answers are read, not served"
    client = engines.connect(model, "--candidate", answering.number)
    _note_unlisted(client, f"candidate {model.name}", note)
    continues = any(prompt.is_continued for prompts in plan.values() for prompt in prompts)
    if continues and engines.are_live and isinstance(model, Attached):
        try_prefill(client)
    identity = model_identity(model, client.model)
    kind = ServedCandidate if scoring == "text" else OptionScorer
    served = kind(model.name, client, answering.sampling, identity)
    lacking = client.capabilities.missing(*(["prefill"] if continues else []))
    for line in (*served.remarks, *lacking.values()):
        note(f"candidate {model.name}: {line}")
    return served


def _replayed(name: str, recording: Recording, plan: Plan, scoring: str, say: Note) -> Candidate:
    if scoring == "logprob" and any(p.options for prompts in plan.values() for p in prompts):
        raise ModelError(
            "--mcq-scoring logprob: use --mcq-scoring text; recorded answers have no probabilities"
        )
    for benchmark, prompts in plan.items():
        recording.require(benchmark, prompts)
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
    return replay.ReplayCandidate(name, recording)


def _note_unlisted(client: Client, who: str, note: Note) -> None:
    """Some gateways answer to any name, perhaps with another model."""
    if not client.is_listed:
        note(f"{who}: check the name: {client.url} does not list {client.model}, but answers to it")


# The judges.


def judge_panels(
    judging: Judging, ways: Mapping[str, Way], engines: Servers, note: Note, is_recorded: bool
) -> Judges:
    """The judges that ``--judge`` names, by what they judge.

    Args:
        is_recorded: the answers are recorded ones, which may have labels.
    """
    named = [
        _judge_setup(judging, judge, number, engines, note)
        for number, judge in enumerate(judging.judges, 1)
    ]
    return panel.panels(ways, named, is_recorded)


def _judge_setup(
    judging: Judging, judge: NamedJudge, number: int, engines: Servers, note: Note
) -> JudgeSetup | Rule:
    model = judge.model
    if isinstance(model, Rule):
        return model
    client = engines.connect(model, "--judge", number)
    _note_unlisted(client, f"judge {judge.name}", note)
    return JudgeSetup(
        name=judge.name,
        client=client,
        model_identity=model_identity(model, client.model),
        sampling=judging.sampling,
        template=judge.template,
        running=engines.are_live and isinstance(model, Attached),
        note=lambda line: note(f"judge {judge.name}: {line}"),
        special_tokens=special_tokens(model),
        folder=Path(model.path) if isinstance(model, Served) else None,
        cascade=judging.cascade,
        rationales=judging.rationales,
    )


def _require_several(gates: Sequence[Gate], judges: Judges) -> None:
    """Refuse gates that compare several judges where there is one."""
    for gate in (gate for gate in gates if gate.metric == disagreement_rate.name):
        named = f"{gate.source}: [{gate.benchmark}] {gate.metric}"
        if len(judges[gate.benchmark]) == 1:
            raise UserError(f"{named}: give --judge more than once; it compares several judges")
        if cascade.of(judges[gate.benchmark]):
            raise UserError(
                f"{named}: name a third --judge, so that each reads every answer: beside bundled "
                "a second one reads only some"
            )


def _note_without_reasons(judges: Judges, note: Note) -> None:
    """Tell which judges ``--rationales offenders`` changes nothing for.

    Such judges write no reasons, or give them as part of the verdict. It is a note, not an error: a
    repository may set the option once, whatever judge it uses.
    """
    whole: dict[str, list[str]] = {}
    for benchmark, asked in judges.items():
        for judge in asked:
            if not judge.reasoned:
                whole.setdefault(judge.name, []).append(benchmark)
    for name, benchmarks in whole.items():
        where = "" if len(benchmarks) == len(judges) else f" in {', '.join(benchmarks)}"
        note(
            f"judge {name}: --rationales offenders changes nothing{where}: only judges of refusals "
            "that write their reasons can leave them out"
        )
