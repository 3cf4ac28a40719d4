"""The options that name models: one candidate, and one judge or several."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.models import spec
from refusal_checks.run.options import placement


class Given(Protocol):
    """The values of options, as pytest's configuration gives them."""

    def getoption(self, name: str) -> Any:
        """An option's value by its name, its default where it was not given."""


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run.

    Attributes:
        name: the model as the user named it; with a number, where others are named so too.
        template: what ``--judge-template`` names for it; None for the judge's own.
    """

    name: str
    model: spec.JudgeModel
    template: str | None = None


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
        help="the judge: a model as above, or keyword, or labels; given several times, their "
        "majority decides",
    )
    for role in ("candidate", "judge"):
        each = f"; once for all {role}s, or once for each"
        for option, (metavar, text) in _EXTRAS.items():
            help = text.format(role=role) + each
            add(f"--{role}-{option}", metavar=metavar, action="append", help=help)
    add(
        "--judge-template",
        metavar="NAME",
        action="append",
        help="judge prompt: refusal (default), demo (default for demo:judge), wildguard, "
        "harmbench, or a .md file; once for all judges, or once for each",
    )


_EXTRAS = {
    "args": ("ARGS", "arguments for the {role}'s engine, verbatim; one quoted string"),
    "template-kwargs": ("JSON", "variables for the {role}'s chat template, a JSON object"),
    "reasoning-end": (
        "TEXT",
        "text that ends the {role}'s reasoning, where no parser of vLLM's finds it "
        '(--{role}-args "--reasoning-parser NAME")',
    ),
}
"""What can be said of a model besides its name: option, placeholder and help."""


def candidate_names(config: Given) -> tuple[str, ...]:
    """What each ``--candidate`` names, as written; those that come twice with a number."""
    return tuple(_distinct(config.getoption("candidate") or ()))


def read_candidates(config: Given) -> tuple[spec.Candidate, ...]:
    """The models that each ``--candidate`` names, in their order.

    Raises:
        ModelError: one is wrong, or named twice; or an option is given neither once nor for each.
    """
    named: list[str] = config.getoption("candidate")
    found = [
        replace(spec.parse_candidate(name, extras), name=shown)
        for name, shown, extras in zip(
            named, candidate_names(config), _all_extras(config, "candidate", named), strict=True
        )
    ]
    for number, one in enumerate(found):
        if replace(one, name="") in [replace(other, name="") for other in found[:number]]:
            raise ModelError(f"--candidate {named[number]}: named twice with the same settings")
    return tuple(found)


def read_judges(config: Given) -> tuple[NamedJudge, ...]:
    """What each ``--judge`` names, in their order.

    Raises:
        ModelError: one is wrong, or named twice; or an option is given neither once nor for each.
    """
    named: list[str] = config.getoption("judge")
    templates = _spread(config, "--judge-template", named, "")
    extras = _all_extras(config, "judge", named)
    found = [spec.parse_judge(*each) for each in zip(named, extras, strict=True)]
    judges = [
        NamedJudge(name, model, None if isinstance(model, spec.Rule) else template or None)
        for name, model, template in zip(_distinct(named), found, templates, strict=True)
    ]
    _require_different(named, judges)
    return tuple(judges)


def _all_extras(config: Given, role: str, named: Sequence[str]) -> list[spec.Extras]:
    """What the options say of each model of a role besides its name."""
    args = _spread(config, f"--{role}-args", named, "")
    kwargs = _spread(config, f"--{role}-template-kwargs", named, "{}")
    ends = _spread(config, f"--{role}-reasoning-end", named, "")
    engine = placement.read_engine(config)
    return [
        replace(_extras(role, *given), engine=engine.name, program=engine.program)
        for given in zip(args, kwargs, ends, strict=True)
    ]


def _spread(config: Given, option: str, named: Sequence[str], default: str) -> list[str]:
    """An option's values, one for each model of its role."""
    values: list[str] = config.getoption(option) or [default]
    count, role = len(named), option.split("-")[2]
    if len(values) not in (1, count):
        raise ModelError(
            f"{option} is given {len(values)} times for {count} --{role}: give it once for all "
            f"{role}s, or once for each, in their order"
        )
    return values * count if len(values) == 1 else values


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that come more than once."""
    count: Counter[str] = Counter()
    found = []
    for name in names:
        count[name] += 1
        found.append(f"{name} ({count[name]})" if names.count(name) > 1 else name)
    return found


def _require_different(named: Sequence[str], judges: Sequence[NamedJudge]) -> None:
    seen: list[tuple[spec.JudgeModel, str | None]] = []
    for name, judge in zip(named, judges, strict=True):
        if (judge.model, judge.template) in seen:
            raise ModelError(
                f"--judge {name}: named twice with the same settings, so its vote would count "
                "double; give each its own --judge-template-kwargs or --judge-template"
            )
        seen.append((judge.model, judge.template))


def _extras(role: str, args: str, template_kwargs: str, reasoning_end: str) -> spec.Extras:
    try:
        words = tuple(shlex.split(args))
    except ValueError as fault:
        raise ModelError(f"--{role}-args: {fault}") from None
    option = f"--{role}-template-kwargs {template_kwargs}"
    try:
        kwargs = json.loads(template_kwargs)
    except ValueError as fault:
        raise ModelError(f"{option}: no JSON: {fault}") from None
    if not isinstance(kwargs, dict):
        raise ModelError(f"{option}: must be a JSON object")
    return spec.Extras(words, kwargs, reasoning_end)
