"""The parts of a run, built from its options: prompts, candidate, judges and servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark, attacks, choices, pinned
from refusal_checks.benchmarks.attacks import rewrite
from refusal_checks.benchmarks.attacks.base import Given
from refusal_checks.benchmarks.subset import stratified
from refusal_checks.core.errors import DataError, ModelError, UserError, require_known
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import clean
from refusal_checks.engines import kinds
from refusal_checks.engines.kinds import require_program
from refusal_checks.engines.pool import PoolSettings
from refusal_checks.engines.servers import Servers
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import cascade, panel
from refusal_checks.judges.base import JudgeSetup, reasoned
from refusal_checks.judges.panel import Way
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.models import demo
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.attaching import try_prefill
from refusal_checks.models.client.client import Client
from refusal_checks.models.files import special_tokens
from refusal_checks.models.recordings import replay
from refusal_checks.models.spec import Attached, Replay, Rule, Served, model_identity
from refusal_checks.run.evaluate import Judges, Plan
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.options.models import NamedJudge

Note = Callable[[str], None]
"""Takes one line that the user must know about how the verdicts came about."""


def evaluated(gates: Iterable[Gate], benchmarks: Mapping[str, Benchmark]) -> tuple[str, ...]:
    """The benchmarks to evaluate: for one that stands for all attacks, those under each."""
    names = (benchmarks[gate.benchmark].under or (gate.benchmark,) for gate in gates)
    return tuple(dict.fromkeys(name for several in names for name in several))


def prompts_of(benchmark: Benchmark, plan: Plan) -> Sequence[Prompt]:
    """A benchmark's prompts; of one that stands for all attacks, the prompts under each."""
    return [prompt for name in benchmark.under or (benchmark.name,) for prompt in plan[name]]


def load(options: Options, gates: Sequence[Gate]) -> Plan:
    """The prompts of each benchmark that is evaluated; of one under attack, the plain ones.

    Raises:
        UserError: data is not there, or lacks the group of a gate.
    """
    names = evaluated(gates, options.benchmarks)
    plain = {name: options.benchmarks[name].plain or name for name in names}
    loaded = {name: _prompts(options, options.benchmarks[name]) for name in set(plain.values())}
    plan = {name: loaded[plain[name]] for name in names}
    _require_groups(options, gates, plan)
    return plan


def _prompts(options: Options, benchmark: Benchmark) -> tuple[Prompt, ...]:
    prompts = pinned.load_checked(benchmark, options.mirror)
    return choices.mark(prompts, benchmark, options.multiple_choice)


def _require_groups(options: Options, gates: Sequence[Gate], plan: Plan) -> None:
    for gate in gates:
        if gate.group_kind is None:
            continue
        prompts = prompts_of(options.benchmarks[gate.benchmark], plan)
        where = f"{gate.source}: [{gate.benchmark}.{gate.group_kind}.{gate.group}]"
        kinds = {kind for prompt in prompts for kind in prompt.groups}
        require_known(gate.group_kind, kinds, where, "kind of group")
        groups = {prompt.groups.get(gate.group_kind, "") for prompt in prompts} - {""}
        require_known(str(gate.group), groups, where, gate.group_kind)


def limited(options: Options, gates: Sequence[Gate], whole: Plan) -> Plan:
    """At most as many prompts of each benchmark as its limit.

    Raises:
        UserError: none is left of the group of a gate.
    """
    limits = {name: options.benchmarks[name].limit for name in whole}
    plan = {name: stratified(prompts, limits[name]) for name, prompts in whole.items()}
    for gate in gates:
        about = options.benchmarks[gate.benchmark]
        if not any(map(gate.looks_at, prompts_of(about, plan))):
            raise UserError(
                f"{gate.source}: [{gate.benchmark}.{gate.group_kind}.{gate.group}]: raise the "
                f"limit of {about.limit} prompts, which leaves none of this group, or deselect "
                "the gate"
            )
    return plan


def rewritten(
    options: Options, gates: Sequence[Gate], plan: Plan, whole: Plan, note: Note
) -> tuple[Plan, Mapping[str, int]]:
    """The prompts as attacks rewrite them, and how many each could not, by benchmark.

    Args:
        whole: all prompts of each benchmark.
        note: is told of prompts that are left out.

    Raises:
        UserError: an attack fits no prompt, or none of a gate's group.
    """
    done: dict[str, Sequence[Prompt]] = {}
    left_out: dict[str, int] = {}
    unfit: dict[str, str] = {}
    for name, prompts in plan.items():
        attack = options.benchmarks[name].attack
        done[name] = prompts
        if attack:
            found = attacks.find(attack, name)
            unfit[name] = found.unfit
            done[name], lost = rewrite(found, prompts, Given(whole[name]))
            left_out |= {name: len(lost)} if lost else {}
            if lost:
                note(
                    f"{name}: {len(lost)} of {len(prompts)} prompts are left out, because the "
                    f"attack cannot rewrite them ({found.unfit or 'it returns them unchanged'}); "
                    f"the first is {clean(lost[0].id, 60)}"
                )
    for gate in gates:
        if not any(map(gate.looks_at, prompts_of(options.benchmarks[gate.benchmark], done))):
            why = unfit.get(gate.benchmark, "")
            raise DataError(
                f"{gate.source}: deselect {gate.id}, or take the attack out: it can rewrite none "
                f"of the prompts{why and f' ({why})'}"
            )
    return done, left_out


def require_plain(options: Options, gates: Iterable[Gate]) -> None:
    """Raise UserError if a gate is under attack: recorded answers were given to plain prompts."""
    found = next((gate for gate in gates if options.benchmarks[gate.benchmark].attack), None)
    if found:
        raise UserError(
            f'{options.candidate.name}: deselect {found.id} and others under attack (-m "not '
            'attack"), or name a model: recorded answers were given to plain prompts'
        )


def continues_answers(plan: Plan) -> bool:
    """True if an attack has the candidate go on with an answer that has begun."""
    return any(prompt.is_continued for prompts in plan.values() for prompt in prompts)


def pool_settings(options: Options) -> PoolSettings:
    """The options that the engine pool uses."""
    return PoolSettings(
        candidate=options.candidate,
        judges=tuple(judge.model for judge in options.judges),
        limits=options.limits,
        sampling=options.sampling,
        judge_sampling=options.judge_sampling,
        placement=options.placement,
    )


def convert(options: Options, say: Callable[[str], None]) -> None:
    """Make the weights of demo models that are not there yet.

    Raises:
        ModelError: they cannot be made, or there is no engine for them; with the remedy.
    """
    models = (options.candidate, *(judge.model for judge in options.judges))
    wanted = [model for model in models if isinstance(model, Served) and model.conversion]
    for model in wanted:
        require_program(kinds.get(model.engine), model.program)
    demo.convert([model.conversion for model in wanted], say)


class Parts(NamedTuple):
    """The parts of a run; nothing is started yet.

    Attributes:
        repeats: the same judges with other seeds, one set per repetition (``--judge-repeats``).
        left_out: how many prompts each attack could not rewrite, by benchmark.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    engines: Servers
    repeats: tuple[Judges, ...] = ()
    left_out: Mapping[str, int] = MappingProxyType({})


def assemble(
    options: Options,
    gates: Sequence[Gate],
    engines: Servers,
    say: Callable[[str], None],
    note: Callable[[str], None],
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
    recording = _recording(options)
    if recording:
        require_plain(options, gates)
    whole = load(options, gates)
    if recording and options.replay.partial:
        whole = _recorded(recording, gates, whole, note)
    plan, left_out = rewritten(options, gates, limited(options, gates, whole), whole, note)
    candidate = (
        _replayed(options, recording, plan, say)
        if recording
        else _served(options, engines, plan, note)
    )
    judges = _judges(options, gates, plan, engines, note)
    require_several(gates, judges)
    require_whole(options, judges)
    note_whole(options, judges, note)
    repeats = tuple(
        _judges(_reseeded(options, number), gates, plan, engines, note)
        for number in range(1, options.trust.repeats)
    )
    return Parts(plan, candidate, judges, engines, repeats, left_out)


_STRIDE = 1000
"""Distance between the seeds of repeated verdicts: a judge's own retry uses the next seed."""


def _reseeded(options: Options, number: int) -> Options:
    """The options with another seed of the judges."""
    sampling = options.judge_sampling
    seed = (sampling.seed + number * _STRIDE) % 2**31
    return replace(options, judge_sampling=sampling.model_copy(update={"seed": seed}))


def _recording(options: Options) -> replay.Recording | None:
    """The recorded answers, if the candidate is a file of these."""
    if not isinstance(options.candidate, Replay):
        return None
    return replay.read(options.candidate.path, options.replay)


def _recorded(
    recording: replay.Recording, gates: Sequence[Gate], whole: Plan, note: Callable[[str], None]
) -> Plan:
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


def _served(
    options: Options, engines: Servers, plan: Plan, note: Callable[[str], None]
) -> Candidate:
    model = options.candidate
    assert not isinstance(model, Replay), "recorded answers are read, not served"
    client = engines.connect(model, "--candidate", options.number)
    _note_unlisted(client, f"candidate {model.name}", note)
    continues = continues_answers(plan)
    if continues and engines.are_live and isinstance(model, Attached):
        try_prefill(client)
    identity = model_identity(model, client.model)
    served = ServedCandidate(model.name, client, options.sampling, identity)
    lacking = client.capabilities.missing(*(["prefill"] if continues else []))
    for line in (*served.remarks, *lacking.values()):
        note(f"candidate {model.name}: {line}")
    by_text = options.multiple_choice.scoring == "text"
    return served if by_text else OptionScorer(served, client, identity)


def _replayed(
    options: Options, recording: replay.Recording, plan: Plan, say: Callable[[str], None]
) -> Candidate:
    _require_text_scoring(options, plan)
    for name, prompts in plan.items():
        recording.require(name, prompts)
        if reworded := recording.reworded(prompts):
            count = f"{len(reworded)} of {len(prompts)} prompts are"
            first = ", ".join(clean(prompt_id, 60) for prompt_id in reworded[:3])
            say(f"{recording.path}: {name}: {count} worded differently there (first: {first})")
        if unsent := sum(one.never_asked for p in prompts for one in recording.answers(p)):
            say(
                f"{recording.path}: {name}: {unsent} attacks were given up and nothing was sent: "
                "--judge labels counts them as their label says; for any other judge they are "
                "invalid"
            )
    return replay.ReplayCandidate(options.candidate.name, recording)


def _note_unlisted(client: Client, who: str, note: Callable[[str], None]) -> None:
    """Some gateways answer to any name, perhaps with another model."""
    if not client.is_listed:
        note(f"{who}: check the name: {client.url} does not list {client.model}, but answers to it")


def _require_text_scoring(options: Options, plan: Plan) -> None:
    """Recorded answers have no probabilities of the other options."""
    asked = any(prompt.options for prompts in plan.values() for prompt in prompts)
    if asked and options.multiple_choice.scoring == "logprob":
        raise ModelError(
            "--mcq-scoring logprob: use --mcq-scoring text; recorded answers have no probabilities"
        )


def _judges(
    options: Options,
    gates: Sequence[Gate],
    plan: Plan,
    engines: Servers,
    note: Callable[[str], None],
) -> Judges:
    names = dict.fromkeys([*plan, *(gate.benchmark for gate in gates)])
    chosen = {name: options.benchmarks[name] for name in names}
    ways = panel.ways(chosen, with_canary=bool(options.trust.floors))
    return judge_panels(options, ways, engines, note)


def judge_panels(
    options: Options, ways: Mapping[str, Way], engines: Servers, note: Callable[[str], None]
) -> Judges:
    """The judges that ``--judge`` names, by what they judge.

    Args:
        note: see ``assemble``.

    Raises:
        ModelError: a judge, or its prompt, cannot be used.
    """
    named = [
        _judge_setup(options, judge, number, engines, note)
        for number, judge in enumerate(options.judges, 1)
    ]
    return panel.panels(ways, named, is_recorded=isinstance(options.candidate, Replay))


def _judge_setup(
    options: Options,
    judge: NamedJudge,
    number: int,
    engines: Servers,
    note: Callable[[str], None],
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
        sampling=options.judge_sampling,
        template=judge.template,
        running=engines.are_live and isinstance(model, Attached),
        note=lambda line: note(f"judge {judge.name}: {line}"),
        special_tokens=special_tokens(model),
        folder=Path(model.path) if isinstance(model, Served) else None,
        cascade=options.cascade,
        rationales=options.rationales,
    )


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
    for benchmark, asked in judges.items():
        for judge in asked:
            if not reasoned(judge):
                whole.setdefault(judge.name, []).append(benchmark)
    for name, benchmarks in whole.items():
        where = "" if len(benchmarks) == len(judges) else f" in {', '.join(benchmarks)}"
        note(
            f"judge {name}: --rationales offenders changes nothing{where}: only judges of refusals "
            "that write their reasons can leave them out"
        )
