"""Proposed gates, as TOML: the loosest bounds of the intervals of reference runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks import attacks
from refusal_checks.benchmarks.attacks import name_of
from refusal_checks.gates.baseline import Scores
from refusal_checks.gates.gate import KEY
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate

_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A TOML key that needs no quotes."""


@dataclass(frozen=True)
class Suggestion:
    """One proposed gate.

    Attributes:
        bound: ``min`` or ``max``.
        value: the loosest bound of the runs' intervals, rounded outwards to three decimals.
    """

    metric: str
    bound: str
    value: float
    estimates: Sequence[Estimate]


def suggest(runs: Sequence[Mapping[str, Scores]]) -> dict[str, list[Suggestion]]:
    """Proposed gates by benchmark; none on the worst attack, which is of others' answers."""
    names = dict.fromkeys(
        name for run in runs for name in run if not name.endswith(name_of("", attacks.ALL))
    )
    return {name: list(_gates([run[name] for run in runs if name in run])) for name in names}


def _gates(runs: Sequence[Scores]) -> Iterator[Suggestion]:
    for metric in sorted(METRICS.values(), key=lambda metric: metric.group != "main"):
        bound = metric.guard(runs[0].kind)
        estimates = [run.figures[metric.name] for run in runs if metric.name in run.figures]
        if metric.group == "detail" or bound is None or not estimates:
            continue
        if bound == "min":
            value = math.floor(1000 * min(each.lower for each in estimates) + 1e-9) / 1000
        else:
            value = math.ceil(1000 * max(each.upper for each in estimates) - 1e-9) / 1000
        yield Suggestion(metric.name, bound, value, estimates)


def as_toml(
    gates: Mapping[str, Sequence[Suggestion]],
    runs: Sequence[Mapping[str, Scores]],
    command: str,
    date: str,
) -> str:
    """A threshold file with these gates, and the command and ISO date that they are from."""
    lines = [f"# Written by: {_comment(command)}", "# From the runs:"]
    lines += dict.fromkeys(
        f"#   {_comment(scores.candidate)} of {_comment(scores.started)}"
        for run in runs
        for scores in run.values()
    )
    for name, suggested in gates.items():
        plain, _, attack = name.rpartition("+")
        path = (plain, KEY, attack) if plain and attacks.is_known(attack) else (name,)
        table = ".".join(each if _BARE.fullmatch(each) else _quoted(each) for each in path)
        lines += [f"\n[{table}]", *(_gate(gate, command, date) for gate in suggested)]
    return "\n".join(lines) + "\n"


def _gate(gate: Suggestion, command: str, date: str) -> str:
    show = METRICS[gate.metric].show
    end = "lower" if gate.bound == "min" else "upper"
    seen = "; ".join(
        f"{show(figure.value)} [{show(figure.lower)}, {show(figure.upper)}], n = {figure.n}"
        for figure in gate.estimates
    )
    fields = (
        f"{gate.bound} = {gate.value:.3f}",
        f"rationale = {_quoted(f'{end} bound of {seen}')}",
        f"source = {_quoted(command)}",
        f"date = {date}",
    )
    return f"{gate.metric} = {{ {', '.join(fields)} }}"


def _quoted(text: str) -> str:
    """A TOML basic string, which JSON's are."""
    return json.dumps(_comment(text), ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
