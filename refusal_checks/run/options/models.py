"""The options that name models, one candidate and one judge or several, and what serves them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

import pytest

from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.files import parse_json
from refusal_checks.core.settings import (
    Cascading,
    Frozen,
    JudgeSampling,
    Rationales,
    Sampling,
    Writing,
)
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import PlacementRequest, Wanted
from refusal_checks.models import spec
from refusal_checks.models.demo import BUNDLED
from refusal_checks.models.recordings.replay import ReplayOptions
from refusal_checks.models.spec import CandidateModel, JudgeModel, Served
from refusal_checks.run.options.call import Call, OptionValues, read_settings


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run.

    Attributes:
        name: the model as the user named it; repeated names get a number.
        template: its ``--judge-template``; None for the judge's own prompt.
    """

    name: str
    model: spec.JudgeModel
    template: str | None = None

    @property
    def is_bundled(self) -> bool:
        """True for the judge that this package brings along."""
        return self.model.name == BUNDLED


@dataclass(frozen=True)
class Answering:
    """The candidate, and how its answers are drawn or read.

    Attributes:
        replay: how a file of recorded answers is read.
        title: the candidate's name in reports.
        number: which of the candidates it is, from 1.
    """

    model: spec.CandidateModel
    sampling: Sampling = field(default_factory=Sampling)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    title: str = ""
    number: int = 1


_STRIDE = 1000
"""Distance between the seeds of repeated verdicts: a judge's own retry uses the next seed."""


@dataclass(frozen=True)
class Judging:
    """The judges, and all that their verdicts depend on besides what they read.

    Attributes:
        cascade: when a judge beside the bundled one is asked.
        rationales: when judges of refusal write their reasons.
    """

    judges: tuple[NamedJudge, ...]
    sampling: JudgeSampling = field(default_factory=JudgeSampling)
    cascade: Cascading = field(default_factory=Cascading)
    rationales: Rationales = "all"

    @property
    def models(self) -> tuple[spec.JudgeModel, ...]:
        """The judges' models."""
        return tuple(judge.model for judge in self.judges)

    def reseeded(self, number: int) -> Judging:
        """The same judges with the seed of a repetition; number 0 keeps the seed."""
        seed = (self.sampling.seed + number * _STRIDE) % 2**31
        return replace(self, sampling=self.sampling.model_copy(update={"seed": seed}))


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--candidate",
        metavar="MODEL",
        action="append",
        help="the model under test: ORG/MODEL or a folder (an engine is started), "
        "http(s)://HOST/v1#MODEL (attached), demo:NAME, or replay:FILE (recorded answers); given "
        "several times, each is tested in turn",
    )
    add(
        "--judge",
        metavar="MODEL",
        action="append",
        help="the judge: a model as above, bundled (a small one, trained for this), keyword, or "
        "labels; given several times, their majority decides, but one model beside bundled is "
        "asked where bundled is unsure",
    )
    add(
        "--candidate-name",
        metavar="NAME",
        action="append",
        help="the candidate's name in ids of tests and in reports, so that a test's history does "
        "not depend on a path (default: the path's last part); once for each candidate",
    )
    for option, (metavar, text) in (_extras_of("candidate") | judge_extras()).items():
        add(option, metavar=metavar, action="append", help=text)


def judge_extras() -> dict[str, tuple[str, str]]:
    """Placeholder and help of each option of a judge besides its name and sampling, by option."""
    template = (
        "NAME",
        "judge prompt: refusal (default), wildguard, harmbench, or a .md file; once for all "
        "judges, or once for each",
    )
    return _extras_of("judge") | {"--judge-template": template}


def _extras_of(role: str) -> dict[str, tuple[str, str]]:
    each = f"; once for all {role}s, or once for each"
    return {
        f"--{role}-{option}": (metavar, text.format(role=role) + each)
        for option, (metavar, text) in _EXTRAS.items()
    }


_EXTRAS = {
    "args": ("ARGS", "arguments for the {role}'s engine, verbatim; one quoted string"),
    "template-kwargs": ("JSON", "variables for the {role}'s chat template, a JSON object"),
    "reasoning-end": (
        "TEXT",
        "text that ends the {role}'s reasoning, if none of vLLM's parsers finds it "
        '(--{role}-args "--reasoning-parser NAME")',
    ),
}
"""Settings of a model besides its name: option, placeholder and help."""


def titles(config: OptionValues) -> tuple[str, ...]:
    """The candidates' names in ids and reports, all different."""
    written, given = candidate_names(config), config.getoption("candidate_name")
    if not given:
        return _shortest(written)
    if len(given) != len(written):
        raise ModelError(
            f"--candidate-name is given {len(given)} times for {len(written)} candidates: give it "
            "once for each, in their order, or not at all"
        )
    for name in given:
        if not name.strip() or given.count(name) > 1:
            raise ModelError(f'--candidate-name "{name}": give each candidate a name of its own')
    return tuple(given)


def _shortest(written: Sequence[str]) -> tuple[str, ...]:
    """The fewest last parts of each name that no other one has; the whole name where all agree."""
    parts = [name.rpartition("#")[2].strip("/").split("/") for name in written]
    found: list[str] = []
    for name, own in zip(written, parts, strict=True):
        others = [each for each in parts if each is not own]
        tails = (own[-count:] for count in range(1, len(own) + 1))
        tail = next((t for t in tails if all(each[-len(t) :] != t for each in others)), None)
        found.append("/".join(tail) if tail and any(tail) else name)
    return tuple(found)


def candidate_names(config: OptionValues) -> tuple[str, ...]:
    """Each ``--candidate`` as written; repeated names get a number."""
    return tuple(_distinct(config.getoption("candidate") or ()))


def read_candidates(config: OptionValues) -> tuple[spec.CandidateModel, ...]:
    """The models that ``--candidate`` names, in order."""
    named: list[str] = config.getoption("candidate")
    models = list(map(spec.parse_candidate, named, _all_extras(config, "candidate", named)))
    _require_different("candidate", named, [replace(model, name="") for model in models])
    names = candidate_names(config)
    return tuple(replace(model, name=name) for name, model in zip(names, models, strict=True))


def _read_judges(config: OptionValues) -> tuple[NamedJudge, ...]:
    named: list[str] = config.getoption("judge")
    templates = _spread(config, "--judge-template", named, "")
    models = list(map(spec.parse_judge, named, _all_extras(config, "judge", named)))
    judges = [
        NamedJudge(name, model, None if isinstance(model, spec.Rule) else template or None)
        for name, model, template in zip(_distinct(named), models, templates, strict=True)
    ]
    _require_different("judge", named, [(judge.model, judge.template) for judge in judges])
    return tuple(judges)


def read_judging(config: OptionValues, repeats: int = 1) -> Judging:
    """Read all options that verdicts depend on.

    Args:
        repeats: how often each answer is judged.

    Raises:
        UserError: a judge is wrong or named twice, a value is out of range, or none of the judges
            has a use for a setting.
    """
    found = Judging(
        _read_judges(config),
        read_settings(config, JudgeSampling, {}, "judge_"),
        read_settings(config, Cascading, {}, "cascade_"),
        read_settings(config, Writing, {}).rationales,
    )
    _require_chance(found.sampling, found.judges)
    _require_use(found.sampling, found.cascade, repeats, found.judges)
    return found


def _require_chance(sampling: JudgeSampling, judges: Iterable[NamedJudge]) -> None:
    if sampling.samples > 1 and all(isinstance(judge.model, spec.Rule) for judge in judges):
        raise UserError(
            f"--judge-samples {sampling.samples}: leave it out, or name a model with --judge: "
            f"{', '.join(judge.name for judge in judges)} gives the same verdict each time"
        )


_UNUSED = "it reads the probability of one token, and draws nothing"


def _require_use(
    sampling: JudgeSampling, cascade: Cascading, repeats: int, judges: Sequence[NamedJudge]
) -> None:
    """Refuse settings that none of the judges has a use for, where the bundled judge is asked."""
    bundled = [judge for judge in judges if judge.is_bundled]
    others = [j for j in judges if not j.is_bundled and not isinstance(j.model, spec.Rule)]
    if len(bundled) > 1:
        raise ModelError(f"--judge {BUNDLED}: name it once, so that it does not count double")
    if bundled and not others:
        given = [f"--judge-{name} {value}" for name, value in _changed(sampling)]
        given += [f"--judge-repeats {repeats}"] * (repeats > 1)
        for option in given:
            raise UserError(
                f"{option.replace('_', '-')}: leave it out, or name a model beside bundled with a "
                f"second --judge: the bundled judge has no use for it: {_UNUSED}"
            )
    if (changed := _changed(cascade)) and not (bundled and len(judges) == 2 and others):
        name, value = changed[0]
        raise UserError(
            f"--cascade-{name} {value}: leave it out, or give --judge twice, bundled and a model: "
            "it says when the model is asked"
        )


def _changed(settings: Frozen) -> list[tuple[str, Any]]:
    """The settings that differ from their defaults."""
    fields = type(settings).model_fields
    return [(name, value) for name, value in settings if value != fields[name].default]


def _require_different(role: str, named: Sequence[str], settings: Sequence[object]) -> None:
    for number, one in enumerate(settings):
        if one in settings[:number]:
            raise ModelError(
                f"--{role} {named[number]}: named twice with the same settings; name it once, so "
                f"that it does not count double, or give each its own --{role}-template-kwargs"
            )


def _all_extras(config: OptionValues, role: str, named: Sequence[str]) -> list[spec.Extras]:
    args = _spread(config, f"--{role}-args", named, "")
    kwargs = _spread(config, f"--{role}-template-kwargs", named, "{}")
    ends = _spread(config, f"--{role}-reasoning-end", named, "")
    engine = read_engine(config)
    return [
        replace(_extras(role, *given), engine=engine.name, program=engine.program)
        for given in zip(args, kwargs, ends, strict=True)
    ]


def _spread(config: OptionValues, option: str, named: Sequence[str], default: str) -> list[str]:
    values: list[str] = config.getoption(option) or [default]
    count, role = len(named), option.split("-")[2]
    if len(values) not in (1, count):
        raise ModelError(
            f"{option} is given {len(values)} times for {count} --{role}: give it once for all "
            f"{role}s, or once for each, in their order"
        )
    each = values * count if len(values) == 1 else values
    shared = len(values) < count
    return [
        _for_bundled(option, value, default, shared) if name == BUNDLED else value
        for name, value in zip(named, each, strict=True)
    ]


def _for_bundled(option: str, value: str, default: str, shared: bool) -> str:
    """An option's value for the bundled judge, which was trained on one conversation.

    Args:
        shared: the value was given once for several judges: it is meant for the others.
    """
    if shared or value == default:
        return default
    if option != "--judge-args":
        raise ModelError(
            f"{option} {value}: leave it out for the bundled judge, or name a model beside it with "
            "a second --judge: it was trained on one conversation and knows no other"
        )
    return value


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; those that occur more than once get a number."""
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def _extras(role: str, args: str, template_kwargs: str, reasoning_end: str) -> spec.Extras:
    try:
        words = tuple(shlex.split(args))
    except ValueError as fault:
        raise ModelError(f"--{role}-args: {fault}") from None
    option = f"--{role}-template-kwargs {template_kwargs}"
    try:
        kwargs = parse_json(template_kwargs)
    except ValueError as fault:
        raise ModelError(f"{option}: not valid JSON: {fault}") from None
    if not isinstance(kwargs, dict):
        raise ModelError(f"{option}: must be a JSON object")
    return spec.Extras(words, kwargs, reasoning_end)


def add_engines(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--engine",
        metavar="NAME",
        default=kinds.AUTO,
        help=f"what serves models that are started here: {', '.join(kinds.names())}, or auto: "
        f"{kinds.PREFERRED} if it is installed, else another one that is",
    )
    add(
        "--engine-command",
        metavar="COMMAND",
        default="",
        help="command that starts the engine instead of the default: a fork, another interpreter, "
        "a container; it gets the engine's arguments; one quoted string",
    )
    add(
        "--placement",
        choices=get_args(Wanted),
        default="auto",
        help="candidate's and judge's engines on the same devices (together), one after the other "
        "(turns), on devices of their own (split), or whatever fits this machine (auto)",
    )
    for role in ("candidate", "judge"):
        add(
            f"--{role}-devices",
            metavar="N,...",
            default="",
            help=f"GPUs, or cores of a CPU, for the {role}'s engine; the other one gets the rest",
        )


class EngineChoice(NamedTuple):
    """The engine's name, and the command that starts it; empty for the default."""

    name: str
    program: tuple[str, ...]


def read_engine(config: OptionValues) -> EngineChoice:
    """Read ``--engine`` and ``--engine-command``; see ``choose_engine``."""
    return choose_engine(config.getoption("engine"), config.getoption("engine_command"))


def choose_engine(name: str | None, command: str | None) -> EngineChoice:
    """The engine that the options name; None if one was not given."""
    try:
        program = tuple(shlex.split(command or ""))
    except ValueError as fault:
        raise UserError(f"--engine-command {command}: {fault}") from None
    # A program of the user's own stands for vLLM, which need not be installed here then.
    usual = kinds.PREFERRED if program else kinds.AUTO
    return EngineChoice(kinds.choose(usual if name in (None, kinds.AUTO) else name), program)


def require_engine(config: OptionValues, models: Sequence[CandidateModel | JudgeModel]) -> None:
    """Refuse the choice of an engine if no model needs one."""
    if any(isinstance(model, Served) for model in models):
        return
    for option, unset in (("--engine", kinds.AUTO), ("--engine-command", "")):
        value = config.getoption(option.lstrip("-").replace("-", "_"))
        if value != unset:
            raise UserError(f"{option} {value}: leave it out: no model of this run is started here")


def read_placement(config: Call) -> PlacementRequest:
    """Read the options on devices."""
    kind, at_once = config.getoption("placement"), config.getoption("stop_early")
    named = {
        role: tuple(filter(None, map(str.strip, config.getoption(f"{role}_devices").split(","))))
        for role in ("candidate", "judge")
    }
    if kind == "turns" and at_once:
        raise UserError(
            "--placement turns: all answers are there before the first is judged, so --stop-early "
            "would save none; leave one of the two out"
        )
    for role, ids in named.items():
        if ids and kind in ("together", "turns"):
            raise UserError(
                f"--{role}-devices divides the devices, and --placement {kind} does not; use "
                "--placement split"
            )
    return PlacementRequest(kind, named["candidate"], named["judge"], at_once)
