"""The options that name models, one candidate and one judge or several, and what serves them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from refusal_checks.core import settings
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.files import parse_json
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import PlacementRequest, Wanted
from refusal_checks.evaluation.options.call import Call, OptionValues, read_settings
from refusal_checks.models import spec
from refusal_checks.models.demo import BUNDLED
from refusal_checks.models.files import reasons
from refusal_checks.models.recordings.replay import ReplayOptions
from refusal_checks.models.spec import CandidateModel, JudgeModel, Served


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run; repeated names get a number. The template replaces its own prompt."""

    name: str
    model: spec.JudgeModel
    template: str | None = None


@dataclass(frozen=True)
class Answering:
    """The candidate, its number among several, and how its answers are drawn or read."""

    model: spec.CandidateModel
    sampling: settings.Sampling = field(default_factory=settings.Sampling)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    title: str = ""
    number: int = 1


@dataclass(frozen=True)
class Judging:
    """The judges, and all that their verdicts depend on besides what they read."""

    judges: tuple[NamedJudge, ...]
    sampling: settings.JudgeSampling = field(default_factory=settings.JudgeSampling)
    cascade: settings.Cascading = field(default_factory=settings.Cascading)
    rationales: settings.Rationales = "all"

    @property
    def models(self) -> tuple[spec.JudgeModel, ...]:
        return tuple(judge.model for judge in self.judges)

    def sampling_of(self, judge: NamedJudge) -> settings.JudgeSampling:
        """How one of the judges writes its verdicts."""
        return self.sampling.of_reasoning if reasons(judge.model) else self.sampling

    def reseeded(self, number: int) -> Judging:
        """The same judges with the seed of a repetition; number 0 keeps the seed."""
        seed = (self.sampling.seed + 1000 * number) % 2**31  # a judge's own retry uses the next one
        return replace(self, sampling=self.sampling.model_copy(update={"seed": seed}))


def add(group: pytest.OptionGroup) -> None:
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
    for option, (metavar, text) in (extras("candidate") | extras("judge")).items():
        add(option, metavar=metavar, action="append", help=text)


_EXTRAS = {
    "args": ("ARGS", "arguments for the {role}'s engine, verbatim; one quoted string"),
    "template-kwargs": ("JSON", "variables for the {role}'s chat template, a JSON object"),
    "reasoning-end": (
        "TEXT",
        "text that ends the {role}'s reasoning, if none of vLLM's parsers finds it "
        '(--{role}-args "--reasoning-parser NAME")',
    ),
    "template": ("NAME", "judge prompt: refusal (default), wildguard, harmbench, or a .md file"),
}
"""Settings of a model besides its name and sampling: option, placeholder and help."""


def extras(role: str) -> dict[str, tuple[str, str]]:
    """Placeholder and help of the options of a role, ``candidate`` or ``judge``, by option."""
    each = f"; once for all {role}s, or once for each"
    return {
        f"--{role}-{option}": (metavar, text.format(role=role) + each)
        for option, (metavar, text) in _EXTRAS.items()
        if option != "template" or role == "judge"
    }


def titles(config: OptionValues) -> tuple[str, ...]:
    """The candidates' names in ids and reports, all different."""
    written = _distinct(config.getoption("candidate") or ())
    given: Sequence[str] = config.getoption("candidate_name") or ()
    if not given:
        return _shortest(written)
    if len(given) != len(written):
        raise ModelError(
            "--candidate-name: give it once for each candidate, in their order, or not at all: it "
            f"is given {len(given)} times for {len(written)}"
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


def read_candidates(config: OptionValues) -> tuple[spec.CandidateModel, ...]:
    named: list[str] = config.getoption("candidate")
    models = list(map(spec.parse_candidate, named, _read_extras(config, "candidate", named)))
    _require_different("candidate", named, [replace(model, name="") for model in models])
    titled = zip(_distinct(named), models, strict=True)
    return tuple(replace(model, name=name) for name, model in titled)


def read_judging(config: OptionValues, repeats: int = 1) -> Judging:
    named: list[str] = config.getoption("judge")
    templates = _spread(config, "--judge-template", named)
    models = list(map(spec.parse_judge, named, _read_extras(config, "judge", named)))
    judges = [
        NamedJudge(name, model, None if isinstance(model, spec.Rule) else template or None)
        for name, model, template in zip(_distinct(named), models, templates, strict=True)
    ]
    _require_different("judge", named, [(judge.model, judge.template) for judge in judges])
    sampling = read_settings(config, settings.JudgeSampling, {}, "judge_")
    cascade = read_settings(config, settings.Cascading, {}, "cascade_")
    if all(isinstance(model, spec.Rule) for model in models):
        rules = ", ".join(judge.name for judge in judges)
        for option, value, why in (
            ("samples", sampling.samples, "gives the same verdict each time"),
            ("template", "".join(templates), "has no prompt"),
        ):
            if value not in (1, ""):
                raise UserError(
                    f"--judge-{option} {value}: leave it out, or name a model with --judge: "
                    f"{rules} {why}"
                )
    bundled = named.count(BUNDLED)
    has_others = any(model.name != BUNDLED for model in models if not isinstance(model, spec.Rule))
    if bundled > 1:
        raise ModelError(f"--judge {BUNDLED}: name it once, so that it does not count double")
    if bundled and not has_others:
        given = [f"{name} {value}" for name, value in changed(sampling)]
        for option in given + [f"repeats {repeats}"] * (repeats > 1):
            raise UserError(
                f"--judge-{option.replace('_', '-')}: leave it out, or name a model beside bundled "
                "with a second --judge: the bundled judge has no use for it: it is a classifier, "
                "and draws nothing"
            )
    return Judging(
        tuple(judges), sampling, cascade, read_settings(config, settings.Writing, {}).rationales
    )


def changed(given: settings.Frozen) -> list[tuple[str, Any]]:
    fields = type(given).model_fields
    return [(name, value) for name, value in given if value != fields[name].default]


def _require_different(role: str, named: Sequence[str], models: Sequence[object]) -> None:
    for number, one in enumerate(models):
        if one in models[:number]:
            raise ModelError(
                f"--{role} {named[number]}: named twice with the same settings; name it once, so "
                f"that it does not count double, or give each its own --{role}-template-kwargs"
            )


def _read_extras(config: OptionValues, role: str, named: Sequence[str]) -> list[spec.Extras]:
    options = [f"--{role}-{option}" for option in ("args", "template-kwargs", "reasoning-end")]
    given = zip(*(_spread(config, option, named) for option in options), strict=True)
    engine = choose_engine(config.getoption("engine"), config.getoption("engine_command"))
    found = []
    for args, template_kwargs, reasoning_end in given:
        try:
            words = tuple(shlex.split(args))
        except ValueError as fault:
            raise ModelError(f"--{role}-args {args}: quote as in a shell: {fault}") from None
        option = f"--{role}-template-kwargs {template_kwargs}"
        try:
            kwargs = parse_json(template_kwargs or "{}")
            if not isinstance(kwargs, dict):
                raise ValueError("it is not an object")
        except ValueError as fault:
            form = """write a JSON object, such as '{"enable_thinking": false}'"""
            raise ModelError(f"{option}: {form}: {fault}") from None
        found.append(spec.Extras(words, kwargs, reasoning_end, *engine))
    return found


def _spread(config: OptionValues, option: str, named: Sequence[str]) -> list[str]:
    values: list[str] = config.getoption(option) or [""]
    count, role = len(named), option.split("-")[2]
    if len(values) not in (1, count):
        raise ModelError(
            f"{option} is given {len(values)} times for {count} --{role}: give it once for all "
            f"{role}s, or once for each, in their order"
        )
    if len(values) < count:  # a value for all is not meant for the bundled judge
        return ["" if name == BUNDLED else values[0] for name in named]
    for name, value in zip(named, values, strict=True):
        if name == BUNDLED and value not in ("", "{}") and option != "--judge-args":
            raise ModelError(
                f"{option} {value}: leave it out for the bundled judge, or name a model beside it "
                "with a second --judge: it is a classifier and has no chat template"
            )
    return values


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; those that occur more than once get a number."""
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def add_engines(group: pytest.OptionGroup) -> None:
    add = group.addoption
    add(
        "--engine",
        metavar="NAME",
        default=kinds.AUTO,
        help=f"what serves models that are started here: {', '.join(kinds.discover())}, or auto: "
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


def choose_engine(name: str | None, command: str | None) -> tuple[str, tuple[str, ...]]:
    """The engine that the options name, and the command that starts it; empty for its own."""
    try:
        program = tuple(shlex.split(command or ""))
    except ValueError as fault:
        raise UserError(f"--engine-command {command}: quote as in a shell: {fault}") from None
    # A program of the user's own stands for vLLM, which need not be installed here then.
    usual = kinds.PREFERRED if program else kinds.AUTO
    return kinds.choose(usual if name in (None, kinds.AUTO) else name), program


def require_engine(config: OptionValues, models: Sequence[CandidateModel | JudgeModel]) -> None:
    """Refuse the choice of an engine if no model needs one."""
    if any(isinstance(model, Served) for model in models):
        return
    for option, unset in (("engine", kinds.AUTO), ("engine-command", "")):
        if (value := config.getoption(option.replace("-", "_"))) != unset:
            raise UserError(
                f"--{option} {value}: leave it out: no model of this run is started here"
            )


def read_placement(config: Call) -> PlacementRequest:
    kind, at_once = config.getoption("placement"), config.getoption("stop_early")
    if kind == "turns" and at_once:
        raise UserError(
            "--placement turns: all answers are there before the first is judged, so --stop-early "
            "would save none; leave one of the two out"
        )
    devices: dict[str, tuple[str, ...]] = {}
    for role in ("candidate", "judge"):
        ids = config.getoption(f"{role}_devices").split(",")
        devices[role] = tuple(filter(None, map(str.strip, ids)))
        if devices[role] and kind in ("together", "turns"):
            raise UserError(
                f"--{role}-devices divides the devices, and --placement {kind} does not; use "
                "--placement split"
            )
    return PlacementRequest(kind, devices["candidate"], devices["judge"], at_once)
