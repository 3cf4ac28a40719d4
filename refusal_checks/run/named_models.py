"""The models that a spec names, candidate and judges, with their engines' settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import RecordingTable
from refusal_checks.engines import vllm
from refusal_checks.judges import template
from refusal_checks.judges.rules import require_meanings
from refusal_checks.models import model_names as models
from refusal_checks.models.model_names import CandidateModel, JudgeModel, Replay, Served


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run; repeated names get a number. A template replaces its built-in prompt."""

    name: str
    model: JudgeModel
    template: str | None = None


@contextmanager
def locate_errors(spec: RunSpec, key: str, option: str) -> Iterator[None]:
    """Make errors about an option's value say where it was set, such as in a file."""
    try:
        yield
    except UserError as fault:
        where, message = spec.where(key), str(fault)
        if where.startswith((option, "--refusal-")) or not message.startswith(option):
            raise
        rest = message.removeprefix(option).lstrip(": ")
        value, _, why = rest.partition(": ")
        if why and value in where:  # it stands there already
            rest = why
        raise type(fault)(f"{where}: {rest}") from None


def read_candidate(spec: RunSpec) -> CandidateModel:
    table = spec.candidate
    options = models.ModelOptions(
        _split_arguments(spec, "candidate.args", table.args),
        table.template_variables,
        table.reasoning_end,
        engine_program(spec),
        judge_reasoning=bool(table.judge_reasoning),
    )
    with locate_errors(spec, "candidate.model", "--candidate"):
        model = models.parse_candidate(table.model, options)
    return vllm.add_dtype(model) if isinstance(model, Served) else model


def read_judges(spec: RunSpec) -> tuple[NamedJudge, ...]:
    named = spec.judge.model
    each = zip(
        named,
        _per_judge(spec, "prompt", ""),
        _per_judge(spec, "args", ""),
        _per_judge(spec, "template_variables", {}),
        _per_judge(spec, "reasoning_end", ""),
        strict=True,
    )
    judges: list[NamedJudge] = []
    for place, (name, prompt, args, variables, end) in enumerate(each):
        words = _split_arguments(spec, "judge.args", args)
        options = models.ModelOptions(words, variables, end, engine_program(spec))
        with locate_errors(spec, "judge.model", "--judge"):
            model = complete_arguments(models.parse_judge(name, options), prompt)
        own = _prompt_for(model, prompt)
        if any((judge.model, judge.template) == (model, own) for judge in judges):
            raise ModelError(
                f"--judge {name}: name it once, or give each its own judge.template_variables: "
                "with the same settings, it would count twice"
            )
        if named.count(name) > 1:  # votes and the manifest go by name
            name = f"{name} ({named[:place].count(name) + 1})"
        judges.append(NamedJudge(name, model, own))
    _require_used(spec, judges)
    return tuple(judges)


def _require_used(spec: RunSpec, judges: Sequence[NamedJudge]) -> None:
    """Refuse settings for models that write, if no judge of the run does."""
    asked = [judge for judge in judges if not isinstance(judge.model, models.Rule)]
    if not all(models.writes_no_text(judge.model) for judge in asked):
        return
    if asked:
        name = asked[0].model.name
        remedy = (
            f"leave it out, or name a model beside {name} with a second --judge: {name} is a "
            "classifier, which samples nothing"
        )
        for key, value in spec.judge.sampling:
            if value != JudgeSampling.model_fields[key].default:
                raise UserError(f"{_as_written(spec, f'judge.{key}', value)}: {remedy}")
        return
    rules = ", ".join(judge.name for judge in judges)
    remedy = f"leave it out, or name a model with --judge: {rules}"
    if spec.judge.samples > 1:
        written = _as_written(spec, "judge.samples", spec.judge.samples)
        raise UserError(f"{written}: {remedy} gives the same verdict every time")
    if any(spec.judge.prompt):
        written = _as_written(spec, "judge.prompt", spec.judge.prompt[0])
        raise UserError(f"{written}: {remedy} has no prompt")


def complete_arguments(model: JudgeModel, prompt: str) -> JudgeModel:
    """Give a judge's engine its data type, and a chat template where its files have none."""
    if not isinstance(model, Served):
        return model
    model = vllm.add_dtype(model)
    if any(arg.replace("_", "-").startswith("--chat-template") for arg in model.args):
        return model  # the user's own wins
    metadata = template.list_packaged().get(
        prompt or template.find_packaged(model.path) or ""
    )
    if metadata is None or not metadata.chat_template:
        return model
    return replace(model, args=(*model.args, "--chat-template", metadata.chat_template))


def _prompt_for(model: JudgeModel, given: str) -> str | None:
    """A judge's prompt: the user's, else the folder of prompts that comes with its model."""
    if isinstance(model, models.Rule):
        return None
    if given:
        return given
    if isinstance(model, Served) and model.provided and model.provided.prompts:
        return str(model.provided.prompts)
    return None


def _as_written(spec: RunSpec, key: str, value: object) -> str:
    """A key and its value, as the user wrote them."""
    where = spec.where(key)
    has_value = where.startswith(("--", f"{key} = "))
    return where if has_value else f"{where} = {value!r}"


def _split_arguments(spec: RunSpec, key: str, args: str) -> tuple[str, ...]:
    """The words of an engine's arguments: options, each perhaps with values after it."""
    where = _as_written(spec, key, args)
    try:
        words = tuple(shlex.split(args))
    except ValueError as fault:
        raise ModelError(f"{where}: quote as in a shell: {fault}") from None
    # An engine would say the same, but only after a minute of imports.
    takes_values = False
    for word in words:
        if word.startswith("-"):
            takes_values = "=" not in word
        elif not takes_values:
            raise ModelError(
                f"{where}: write --NAME=VALUE: {word!r} is neither an option of the engine nor the "
                "value of one"
            )
    return words


def _per_judge(spec: RunSpec, key: str, unset: object) -> Sequence[Any]:
    """Give each judge its value of a key: one value for all, or one for each."""
    named, count = spec.judge.model, len(spec.judge.model)
    values = list(getattr(spec.judge, key)) or [unset]
    if len(values) not in (1, count):
        raise ModelError(
            f"{spec.where(f'judge.{key}')}: {len(values)} values for {count} --judge: give one for "
            "all judges, or one for each, in their order"
        )
    if len(values) < count:  # a value for all is not meant for what writes no text
        return [
            unset if models.name_writes_no_text(name) else values[0] for name in named
        ]
    for name, value in zip(named, values, strict=True):
        if value != unset and key != "args" and models.name_writes_no_text(name):
            raise ModelError(
                f"{_as_written(spec, f'judge.{key}', value)}: leave it out for {name}, or name a "
                "model beside it with a second --judge: it writes no text and has no chat template"
            )
    return values


def engine_program(spec: RunSpec) -> tuple[str, ...]:
    """The program that starts engines in place of vLLM's own; empty for vLLM's own."""
    command = spec.engine.command
    try:
        return tuple(shlex.split(command))
    except ValueError as fault:
        raise UserError(
            f"engine.command {command}: quote as in a shell: {fault}"
        ) from None


def require_engine(
    spec: RunSpec, parsed: Sequence[CandidateModel | JudgeModel]
) -> None:
    """Refuse a program for engines if no model needs one."""
    command = spec.engine.command
    if command and not any(isinstance(model, Served) for model in parsed):
        raise UserError(
            f"{_as_written(spec, 'engine.command', command)}: leave it out: no model of this run "
            "is started here"
        )


def require_usable_devices(spec: RunSpec) -> None:
    """Refuse a model's devices if the placement gives all devices to both."""
    kind = spec.engine.placement
    for role in ("candidate", "judge"):
        if getattr(spec, role).device_ids and kind in ("together", "turns"):
            raise UserError(
                f"{spec.where(f'{role}.devices')}: leave it out, or use --set "
                f'engine.placement=auto: engine.placement "{kind}" does not divide the devices'
            )


def require_recording(table: RecordingTable, candidate: CandidateModel) -> None:
    """Refuse recording keys without a recording, and unknown meanings of labels."""
    require_meanings(table.meanings)
    for name in table.model_fields_set:
        if getattr(table, name) and not isinstance(candidate, Replay):
            raise UserError(
                f"recording.{name}: leave it out, or name a file with --candidate=replay:FILE: it "
                "only says how recorded answers are read"
            )
