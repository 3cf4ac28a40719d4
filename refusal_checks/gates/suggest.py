"""Proposed gates, as TOML: the loosest bounds of the intervals of reference runs."""

from __future__ import annotations

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
        estimates: the figure in each run.
    """

    metric: str
    bound: str
    value: float
    estimates: Sequence[Estimate]


def suggest(runs: Sequence[Mapping[str, Scores]]) -> dict[str, list[Suggestion]]:
    """Proposed gates by benchmark; none on the worst attack, which is of others' answers.

    Args:
        runs: the scores of each reference run, by benchmark.
    """
    names = dict.fromkeys(
        name for run in runs for name in run if not name.endswith(name_of("", attacks.ALL))
    )
    return {name: list(_gates([run[name] for run in runs if name in run])) for name in names}


def _gates(runs: Sequence[Scores]) -> Iterator[Suggestion]:
    for metric in sorted(METRICS.values(), key=lambda metric: metric.group != "main"):
        bound = metric.guard(runs[0].kind)
        if metric.group == "detail" or bound is None:
            continue
        estimates = [run.figures[metric.name] for run in runs if metric.name in run.figures]
        if estimates and bound == "min":
            lowest = min(estimate.lower for estimate in estimates)
            yield Suggestion(metric.name, bound, math.floor(1000 * lowest + 1e-9) / 1000, estimates)
        elif estimates:
            highest = max(estimate.upper for estimate in estimates)
            yield Suggestion(metric.name, bound, math.ceil(1000 * highest - 1e-9) / 1000, estimates)


def as_toml(
    gates: Mapping[str, Sequence[Suggestion]],
    runs: Sequence[Mapping[str, Scores]],
    command: str,
    date: str,
) -> str:
    """A threshold file with these gates and their origin.

    Args:
        command: the one that made the suggestion; date: its ISO date.
    """
    lines = [f"# Written by: {_comment(command)}", "# From the runs:"]
    sources = dict.fromkeys(
        f"#   {_comment(scores.candidate)} of {_comment(scores.started)}"
        for run in runs
        for scores in run.values()
    )
    return "\n".join([*lines, *sources, *_tables(gates, command, date)]) + "\n"


def _tables(gates: Mapping[str, Sequence[Suggestion]], command: str, date: str) -> Iterator[str]:
    for name, suggested in gates.items():
        yield f"\n[{_table(name)}]"
        for gate in suggested:
            yield f"{gate.metric} = {_gate(gate, command, date)}"


def _table(benchmark: str) -> str:
    """The table of a benchmark; of one under attack, within the plain one's."""
    plain, _, attack = benchmark.rpartition("+")
    is_attack = plain and attacks.is_known(attack)
    path = (plain, KEY, attack) if is_attack else (benchmark,)
    return ".".join(name if _BARE.fullmatch(name) else _quoted(name) for name in path)


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
    return "{ " + ", ".join(fields) + " }"


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_comment(escaped)}"'


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
