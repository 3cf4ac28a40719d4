"""The prompts of a run: loaded, limited, and rewritten by attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from refusal_checks.benchmarks import Benchmark, attacks, choices, pinned
from refusal_checks.benchmarks.attacks import rewrite
from refusal_checks.benchmarks.attacks.base import Given
from refusal_checks.benchmarks.subset import stratified
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.plan import Plan

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
