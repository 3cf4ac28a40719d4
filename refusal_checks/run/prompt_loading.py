"""Load a run's prompts, check them against the gates, and apply limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark, answer_key, hub, mirror_index
from refusal_checks.benchmarks.benchmark import stratified_sample
from refusal_checks.core.errors import (
    DataError,
    ThresholdError,
    UserError,
    require_known,
)
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice
from refusal_checks.gates.gate import EVERY, Gate
from refusal_checks.models.model_names import Replay
from refusal_checks.models.recordings import recording_file
from refusal_checks.models.recordings.recording import Recording
from refusal_checks.run.inputs import Inputs
from refusal_checks.run.plan import Plan

Benchmarks = Mapping[str, Benchmark]
Note = Callable[[str], None]


class LoadedPrompts(NamedTuple):
    """The prompts of a run.

    Attributes:
        usual: number of prompts without a limit and with a complete recording, by benchmark.
        recording: the recorded answers, if the candidate is a recording.
    """

    plan: Plan
    usual: Mapping[str, int]
    recording: Recording | None


def load_prompts(inputs: Inputs, note: Note) -> LoadedPrompts:
    """Load the prompts of the gates' benchmarks and of those measured; note which are left out.

    For a partial recording, load only prompts that it has answers to.

    Raises:
        UserError: the data cannot be read, or a gate's group is not in it.
    """
    gates, benchmarks, spec = inputs.gates, inputs.benchmarks, inputs.spec
    names = inputs.benchmark_names
    with hub.no_cached_copy(inputs.redaction.is_on):
        whole = _load_whole(names, benchmarks, inputs.mirror, spec.multiple_choice)
    # Before prompts without a recorded answer are left out: they make the run a part.
    usual = {
        name: len(stratified_sample(whole[name], benchmarks[name].usual_limit))
        for name in names
    }
    # In the whole data: of a part, a group may be missing by chance.
    for gate in gates:
        if gate.group_kind is not None:
            _require_group(gate, whole[gate.benchmark])
    recording = None
    if isinstance(inputs.candidate, Replay):
        prompts = chain.from_iterable(whole.values())
        recording = recording_file.read_recording(
            inputs.candidate, prompts, spec.recording
        )
    # Before the limit, which chooses among prompts that have answers.
    if recording and spec.recording.partial:
        whole = _keep_recorded(recording, whole, note)
        empty = _find_empty(gates, whole)
        if empty:
            raise DataError(
                f"{recording.path}: deselect {empty.id}: its group has no recorded answer"
            )
    plan: Plan = {
        name: stratified_sample(prompts, benchmarks[name].limit)
        for name, prompts in whole.items()
    }
    empty = _find_empty(gates, plan)
    if empty:
        raise UserError(
            f"{_table(empty)}: raise the limit of prompts, {benchmarks[empty.benchmark].limit}, "
            "which leaves none of this group, or deselect the gate"
        )
    return LoadedPrompts(plan, usual, recording)


def _load_whole(
    names: Iterable[str],
    benchmarks: Benchmarks,
    mirror: Path | None,
    multiple_choice: MultipleChoice,
) -> Plan:
    loaded = {}
    for name in names:
        prompts = mirror_index.load_checked(benchmarks[name], mirror)
        loaded[name] = answer_key.mark_answers(
            prompts, benchmarks[name], multiple_choice
        )
    return loaded


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


def _keep_recorded(recording: Recording, whole: Plan, note: Note) -> Plan:
    """Keep the prompts that have a recorded answer, and note how many."""
    plan = {
        name: tuple(filter(recording.answers_to, prompts))
        for name, prompts in whole.items()
    }
    for name, prompts in plan.items():
        if not prompts:
            raise DataError(
                f"{recording.path}: name the recording of {name}, or leave it out (-k 'not "
                f"{name}'): none of its {len(whole[name])} prompts has a recorded answer"
            )
        if len(prompts) < len(whole[name]):
            note(
                f"{name}: its figures cover {len(prompts)} of {len(whole[name])} prompts: "
                f"{recording.path.name} answers no others"
            )
    return plan


def _find_empty(gates: Sequence[Gate], plan: Plan) -> Gate | None:
    for gate in gates:
        if not any(map(gate.looks_at, plan[gate.benchmark])):
            return gate
    return None
