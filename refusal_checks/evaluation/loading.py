"""Load a run's prompts: check them against the gates, limit them, apply attacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark, answer_key, attacks, hub, mirror_index
from refusal_checks.benchmarks.attacks import rewrite
from refusal_checks.benchmarks.attacks.attack import Given
from refusal_checks.benchmarks.benchmark import stratified
from refusal_checks.core.errors import (
    DataError,
    ThresholdError,
    UserError,
    require_known,
)
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice
from refusal_checks.core.text import clean
from refusal_checks.evaluation.config import CandidateConfig
from refusal_checks.evaluation.planning import Plan
from refusal_checks.gates.gate import EVERY, Gate
from refusal_checks.models.names import Replay
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.recording import Recording

Benchmarks = Mapping[str, Benchmark]
Note = Callable[[str], None]


class Loaded(NamedTuple):
    """The prompts of a run.

    Attributes:
        left_out: number of prompts that the attack could not rewrite, by benchmark.
        usual: number of prompts without a limit and with a complete recording, by benchmark.
        recording: the recorded answers, if the candidate is a recording.
    """

    plan: Plan
    left_out: Mapping[str, int]
    usual: Mapping[str, int]
    recording: Recording | None


def prompts_of(benchmark: Benchmark, plan: Plan) -> Sequence[Prompt]:
    """A benchmark's prompts; if it combines all attacks, the prompts under each."""
    prompts: list[Prompt] = []
    for name in benchmark.under or (benchmark.name,):
        prompts += plan[name]
    return prompts


def load_prompts(
    gates: Sequence[Gate],
    benchmarks: Benchmarks,
    mirror: Path | None,
    multiple_choice: MultipleChoice,
    answering: CandidateConfig,
    note: Note,
    *,
    redact: bool,
) -> Loaded:
    """Load the prompts of the gates' benchmarks; note which are left out.

    For a benchmark that combines all attacks, load the prompts under each. For a partial
    recording, load only prompts that it has answers to.

    Raises:
        UserError: the data cannot be read, or a gate's group is not in it.
    """
    names = _benchmarks_of(gates, benchmarks)
    with hub.leaving_no_copy(redact):
        whole = _whole(names, benchmarks, mirror, multiple_choice)
    usual = {
        name: min(len(whole[name]), benchmarks[name].usual_limit or sys.maxsize)
        for name in names
    }
    for gate in gates:
        if gate.group_kind is not None:
            _require_group(gate, prompts_of(benchmarks[gate.benchmark], whole))
    recording = _recording(answering, whole)
    if recording and answering.replay.partial:
        whole = _recorded(recording, whole, note)
        empty = _without_prompts(benchmarks, gates, whole)
        if empty:
            raise DataError(
                f"{recording.path}: deselect {empty.id}: its group has no recorded answer"
            )
    plan: Plan = {
        name: stratified(prompts, benchmarks[name].limit)
        for name, prompts in whole.items()
    }
    empty = _without_prompts(benchmarks, gates, plan)
    if empty:
        raise UserError(
            f"{_table(empty)}: raise the limit of prompts, {benchmarks[empty.benchmark].limit}, "
            "which leaves none of this group, or deselect the gate"
        )
    plan, left_out = _attacked(plan, whole, benchmarks, gates, note)
    return Loaded(plan, left_out, usual, recording)


def _benchmarks_of(gates: Sequence[Gate], benchmarks: Benchmarks) -> list[str]:
    """The benchmarks to load for gates; one that combines all attacks becomes those under each."""
    names: dict[str, None] = {}
    for gate in gates:
        under = benchmarks[gate.benchmark].under
        names |= dict.fromkeys(under or (gate.benchmark,))
    return list(names)


def _whole(
    names: Iterable[str],
    benchmarks: Benchmarks,
    mirror: Path | None,
    multiple_choice: MultipleChoice,
) -> Plan:
    """All prompts of benchmarks, before attacks rewrite them."""
    plain = {name: benchmarks[name].plain or name for name in names}
    loaded = {}
    for name in set(plain.values()):
        prompts = mirror_index.load_checked(benchmarks[name], mirror)
        loaded[name] = answer_key.mark(prompts, benchmarks[name], multiple_choice)
    return {name: loaded[plain[name]] for name in plain}


def _require_group(gate: Gate, prompts: Iterable[Prompt]) -> None:
    """Refuse a gate on a group that the data does not have."""
    assert gate.group_kind is not None
    kinds: set[str] = set()
    values: set[str] = set()
    for prompt in prompts:
        kinds.update(prompt.groups)
        values.add(prompt.groups.get(gate.group_kind, ""))
    values.discard("")
    # All of the package's own benchmarks have groups; in a user's file they are columns.
    remedy = ""
    if not kinds:
        remedy = f'; name the column: groups = {{ {gate.group_kind} = "..." }}'
    require_known(gate.group_kind, kinds, _table(gate), "kind of group", remedy=remedy)
    if not gate.is_on_every_group:
        require_known(str(gate.group), values, _table(gate), gate.group_kind)
        return
    if EVERY in values:
        raise DataError(
            f'{_table(gate)}: give the {gate.group_kind} "{EVERY}" of the data another name: it '
            "stands for every group"
        )
    if values <= {*gate.apart}:
        raise ThresholdError(
            f"{_table(gate)}: remove it: every {gate.group_kind} has a table of its own with "
            f"{gate.metric}"
        )


def _table(gate: Gate) -> str:
    group = f'"{EVERY}"' if gate.is_on_every_group else gate.group
    return f"{gate.source}: [{gate.benchmark}.{gate.group_kind}.{group}]"


def _recording(answering: CandidateConfig, whole: Plan) -> Recording | None:
    if not isinstance(answering.model, Replay):
        return None
    prompts = chain.from_iterable(whole.values())
    how = replace(
        answering.replay,
        reasoning_end=answering.model.reasoning_end,
        judge_reasoning=answering.model.judge_reasoning,
    )
    return replay.read(answering.model.path, how, prompts)


def _recorded(recording: Recording, whole: Plan, note: Note) -> Plan:
    """Keep the prompts that have a recorded answer; note how many they are."""
    plan = {
        name: tuple(filter(recording.answers, prompts))
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
    return plan


def _attacked(
    plan: Plan, whole: Plan, benchmarks: Benchmarks, gates: Sequence[Gate], note: Note
) -> tuple[Plan, dict[str, int]]:
    """Apply attacks: the rewritten prompts, and how many each attack could not rewrite."""
    rewritten = dict(plan)
    left_out: dict[str, int] = {}
    unfit: dict[str, str] = {}
    for name, prompts in plan.items():
        if not benchmarks[name].attack:
            continue
        attack = attacks.find(benchmarks[name].attack, name)
        unfit[name] = attack.unfit
        rewritten[name], lost = rewrite(attack, prompts, Given(whole[name]))
        if lost:
            left_out[name] = len(lost)
            note(
                f"{name}: {len(lost)} of {len(prompts)} prompts are left out, because the "
                f"attack cannot rewrite them ({attack.unfit or 'it returns them unchanged'}); "
                f"the first is {clean(lost[0].id, 60)}"
            )
    empty = _without_prompts(benchmarks, gates, rewritten)
    if empty:
        why = unfit.get(empty.benchmark, "")
        reason = f" ({why})" if why else ""
        raise DataError(
            f"{empty.source}: deselect {empty.id}, or take the attack out: it can rewrite none "
            f"of the prompts{reason}"
        )
    return rewritten, left_out


def _without_prompts(
    benchmarks: Benchmarks, gates: Sequence[Gate], plan: Plan
) -> Gate | None:
    for gate in gates:
        if not any(map(gate.looks_at, prompts_of(benchmarks[gate.benchmark], plan))):
            return gate
    return None
