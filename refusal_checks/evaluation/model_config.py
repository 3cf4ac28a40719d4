"""Make a run's candidates, judges and engines from its spec."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from refusal_checks.core import settings
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.settings import RequestPace
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.evaluation.config import JudgeConfig, NamedJudge
from refusal_checks.judges import template
from refusal_checks.judges.rules import require_meanings
from refusal_checks.models import names as models
from refusal_checks.models.names import CandidateModel, JudgeModel, Replay, Served
from refusal_checks.models.recordings.columns import ReplayOptions
from refusal_checks.spec import ModelTable, RecordingTable, RunSpec

Value = TypeVar("Value")


@contextmanager
def where_written(spec: RunSpec, key: str, option: str) -> Iterator[None]:
    """Make errors about an option's value name where it was written, such as in a file."""
    try:
        yield
    except UserError as fault:
        where, message = spec.where(key), str(fault)
        if where.startswith(option) or not message.startswith(option):
            raise
        rest = message.removeprefix(option).lstrip(": ")
        raise type(fault)(f"{where}: {rest}") from None


def titles(spec: RunSpec) -> tuple[str, ...]:
    """Unique names of the candidates for ids and reports."""
    given = spec.candidate.name
    if not given:
        return _shortest(_distinct(spec.candidate.model))
    with where_written(spec, "candidate.name", "--candidate-name"):
        _require_names(given, len(spec.candidate.model))
    return given


def _require_names(given: Sequence[str], models_named: int) -> None:
    if len(given) != models_named:
        raise ModelError(
            "--candidate-name: give it once for each candidate, in their order, or not at all: it "
            f"is given {len(given)} times for {models_named}"
        )
    for name in given:
        if not name.strip() or given.count(name) > 1:
            raise ModelError(
                f'--candidate-name "{name}": give each candidate a name of its own'
            )


def _shortest(written: Sequence[str]) -> tuple[str, ...]:
    """Shorten each name to the fewest last parts that make it unique; keep it whole if none do."""
    paths = [name.rpartition("#")[2].strip("/").split("/") for name in written]
    shortest: list[str] = []
    for name, path in zip(written, paths, strict=True):
        others = [other for other in paths if other is not path]
        title = name
        for count in range(1, len(path) + 1):
            tail = path[-count:]
            if all(other[-count:] != tail for other in others):
                title = "/".join(tail) if any(tail) else name
                break
        shortest.append(title)
    return tuple(shortest)


def _distinct(names: Sequence[str]) -> list[str]:
    """Number the names that occur more than once."""
    distinct = []
    for place, name in enumerate(names):
        if names.count(name) > 1:
            name = f"{name} ({names[:place].count(name) + 1})"
        distinct.append(name)
    return distinct


def read_candidates(spec: RunSpec) -> tuple[CandidateModel, ...]:
    named = spec.candidate.model
    extras = _read_extras(spec, "candidate", named)
    with where_written(spec, "candidate.model", "--candidate"):
        parsed = [
            models.parse_candidate(name, extra)
            for name, extra in zip(named, extras, strict=True)
        ]
    _require_different(
        "candidate", named, [replace(model, name="") for model in parsed]
    )
    titled = zip(_distinct(named), parsed, strict=True)
    return tuple(replace(model, name=name) for name, model in titled)


def read_judges(spec: RunSpec) -> JudgeConfig:
    named = spec.judge.model
    prompts = _spread(spec, "judge.prompt", spec.judge.prompt, named, "")
    extras = _read_extras(spec, "judge", named)
    with where_written(spec, "judge.model", "--judge"):
        parsed = [
            models.parse_judge(name, extra)
            for name, extra in zip(named, extras, strict=True)
        ]
    judges = [
        NamedJudge(name, laid_out(model, prompt), _prompt_for(model, prompt))
        for name, model, prompt in zip(_distinct(named), parsed, prompts, strict=True)
    ]
    _require_different(
        "judge", named, [(judge.model, judge.template) for judge in judges]
    )
    if all(isinstance(model, models.Rule) for model in parsed):
        _require_unset_for_rules(spec, ", ".join(judge.name for judge in judges))
    classifiers = [model.name for model in parsed if models.is_classifier(model)]
    for name in classifiers:
        if named.count(name) > 1:
            raise ModelError(
                f"--judge {name}: name it once, so that it does not count double"
            )
    others = [model for model in parsed if not isinstance(model, models.Rule)]
    if classifiers and len(classifiers) == len(others):
        for name, value in changed(spec.judge.sampling):
            raise UserError(
                f"{_written(spec, f'judge.{name}', value)}: leave it out, or name a model beside "
                f"{classifiers[0]} with a second --judge: {classifiers[0]} is a classifier, and "
                "draws nothing"
            )
    table = spec.judge
    return JudgeConfig(
        tuple(judges),
        table.sampling,
        table.cascade,
        table.rationales,
        table.thresholds,
        table.partial,
        table.classifier,
    )


def laid_out(model: JudgeModel, prompt: str) -> JudgeModel:
    """Give a judge's engine the chat template of its training where its files have none."""
    if not isinstance(model, Served) or model.engine != "vllm":
        return model
    if any(arg.replace("_", "-").startswith("--chat-template") for arg in model.args):
        return model
    head = template.heads().get(prompt or template.picked(model.path) or "")
    if head is None or not head.chat_template:
        return model
    return replace(model, args=(*model.args, "--chat-template", head.chat_template))


def _prompt_for(model: JudgeModel, given: str) -> str | None:
    """A judge's prompt: the user's, else the folder of prompts that came with its model."""
    if isinstance(model, models.Rule):
        return None
    if given:
        return given
    if isinstance(model, Served) and model.provided and model.provided.prompts:
        return str(model.provided.prompts)
    return None


def _require_unset_for_rules(spec: RunSpec, rules: str) -> None:
    """Refuse model settings for judges that follow rules."""
    remedy = f"leave it out, or name a model with --judge: {rules}"
    if spec.judge.samples > 1:
        written = _written(spec, "judge.samples", spec.judge.samples)
        raise UserError(f"{written}: {remedy} gives the same verdict each time")
    if any(spec.judge.prompt):
        written = _written(spec, "judge.prompt", spec.judge.prompt[0])
        raise UserError(f"{written}: {remedy} has no prompt")


def _written(spec: RunSpec, key: str, value: object) -> str:
    """A key and its value, as the user wrote them."""
    where = spec.where(key)
    has_value = where.startswith(("--", f"{key} = "))
    return where if has_value else f"{where} = {value!r}"


def changed(given: settings.Frozen) -> list[tuple[str, object]]:
    """The keys of a table whose value is not the default, with their values."""
    fields = type(given).model_fields
    return [(name, value) for name, value in given if value != fields[name].default]


def _require_different(
    role: str, named: Sequence[str], identities: Sequence[object]
) -> None:
    for place, identity in enumerate(identities):
        if identity in identities[:place]:
            raise ModelError(
                f"--{role} {named[place]}: named twice with the same settings; name it once, so "
                f"that it does not count double, or give each its own {role}.template_variables"
            )


def _read_extras(spec: RunSpec, role: str, named: Sequence[str]) -> list[models.Extras]:
    """Read the settings of each model of a role."""
    table: ModelTable = getattr(spec, role)
    args = _spread(spec, f"{role}.args", table.args, named, "")
    variables = _spread(
        spec,
        f"{role}.template_variables",
        table.template_variables,
        named,
        dict[str, object](),
    )
    ends = _spread(spec, f"{role}.reasoning_end", table.reasoning_end, named, "")
    engine = choose_engine(spec.engine.name, spec.engine.command)
    extras = []
    for own_args, own_variables, end in zip(args, variables, ends, strict=True):
        try:
            words = tuple(shlex.split(own_args))
        except ValueError as fault:
            where = _written(spec, f"{role}.args", own_args)
            raise ModelError(f"{where}: quote as in a shell: {fault}") from None
        extras.append(
            models.Extras(
                words,
                own_variables,
                end,
                *engine,
                judge_reasoning=role == "candidate"
                and bool(spec.candidate.judge_reasoning),
            )
        )
    return extras


def _spread(
    spec: RunSpec, key: str, values: Sequence[Value], named: Sequence[str], unset: Value
) -> Sequence[Value]:
    """Give each model its value of a key: one value for all, or one for each."""
    role = key.partition(".")[0]
    count = len(named)
    values = list(values) or [unset]
    if len(values) not in (1, count):
        raise ModelError(
            f"{spec.where(key)}: {len(values)} values for {count} --{role}: give one for all "
            f"{role}s, or one for each, in their order"
        )
    if len(values) < count:  # a value for all is not meant for what writes no text
        return [unset if models.is_mute(name) else values[0] for name in named]
    for name, value in zip(named, values, strict=True):
        if value == unset or key == "judge.args":
            continue
        if models.is_mute(name):
            raise ModelError(
                f"{_written(spec, key, value)}: leave it out for {name}, or name a model beside "
                "it with a second --judge: it writes no text and has no chat template"
            )
    return values


def choose_engine(name: str, command: str) -> tuple[str, tuple[str, ...]]:
    """The engine that a spec names, and the command that starts it; empty for the default."""
    try:
        program = tuple(shlex.split(command))
    except ValueError as fault:
        raise UserError(
            f"engine.command {command}: quote as in a shell: {fault}"
        ) from None
    # The user's own program takes the place of vLLM, which then need not be installed here.
    usual = kinds.PREFERRED if program else kinds.AUTO
    return kinds.choose(usual if name == kinds.AUTO else name), program


def require_engine(
    spec: RunSpec, parsed: Sequence[CandidateModel | JudgeModel]
) -> None:
    """Refuse a choice of engine if no model needs one."""
    if any(isinstance(model, Served) for model in parsed):
        return
    for key, value, unset in (
        ("engine.name", spec.engine.name, kinds.AUTO),
        ("engine.command", spec.engine.command, ""),
    ):
        if value != unset:
            raise UserError(
                f"{_written(spec, key, value)}: leave it out: no model of this run is started here"
            )


def placement(spec: RunSpec) -> PlacementRequest:
    kind = spec.engine.placement
    devices: dict[str, tuple[str, ...]] = {}
    for role in ("candidate", "judge"):
        ids = [name.strip() for name in getattr(spec, role).devices.split(",")]
        devices[role] = tuple(name for name in ids if name)
        if devices[role] and kind in ("together", "turns"):
            raise UserError(
                f"{spec.where(f'{role}.devices')} divides the devices, and engine.placement "
                f'"{kind}" does not; use --set engine.placement=split'
            )
    return PlacementRequest(
        kind,
        devices["candidate"],
        devices["judge"],
        len(spec.candidate.model),
    )


def paces(spec: RunSpec) -> dict[str, RequestPace]:
    """Rate limits for the servers of each role."""
    return {"candidate": spec.candidate.pace, "judge": spec.judge.pace}


def read_replay(
    table: RecordingTable, candidates: Sequence[CandidateModel]
) -> ReplayOptions:
    labels = {label.lower(): meaning.lower() for label, meaning in table.labels.items()}
    require_meanings(labels)
    is_recorded = any(isinstance(model, Replay) for model in candidates)
    for name in table.model_fields_set:
        if getattr(table, name) and not is_recorded:
            raise UserError(
                f"recording.{name}: leave it out, or name a file with --candidate=replay:FILE: it "
                "only says how recorded answers are read"
            )
    return ReplayOptions(
        table.columns, labels, table.labelled_by, table.where, table.partial
    )
