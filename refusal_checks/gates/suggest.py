"""Propose gates as TOML: the loosest ends of the intervals of reference runs."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from refusal_checks.gates.score_files import Scores
from refusal_checks.metrics import METRICS

_BARE = re.compile(r"[A-Za-z0-9_-]+")  # a TOML key that needs no quotes


def as_toml(runs: Sequence[Mapping[str, Scores]], command: str, date: str) -> str:
    """Write a run file with gates that these runs pass; it names the command and the ISO date."""
    lines = [f"# Written by: {_comment(command)}", "# From the runs:"]
    origins: dict[str, None] = {}
    for run in runs:
        for scores in run.values():
            candidate, started = _comment(scores.candidate), _comment(scores.started)
            origins[f"#   {candidate} of {started}"] = None
    lines += origins
    for name in dict.fromkeys(name for run in runs for name in run):
        table = name if _BARE.fullmatch(name) else _quoted(name)
        lines.append(f"\n[{table}]")
        origin = f"source = {_quoted(command)}, date = {date}"
        for gate in _gates([run[name] for run in runs if name in run]):
            lines.append(f"{gate}, {origin} }}")
    return "\n".join(lines) + "\n"


def _gates(runs: Sequence[Scores]) -> Iterator[str]:
    """The gates on one benchmark: the metric, its bound (rounded outwards), and why."""
    for metric in sorted(METRICS.values(), key=lambda metric: metric.group != "main"):
        bound = metric.guard(runs[0].kind)
        figures = [
            run.figures[metric.name] for run in runs if metric.name in run.figures
        ]
        if metric.group == "detail" or bound is None or not figures:
            continue
        # The loosest end, rounded outwards to three digits.
        if bound == "min":
            end, lowest = "lower", min(figure.lower for figure in figures)
            value = math.floor(1000 * lowest + 1e-9) / 1000
        else:
            end, highest = "upper", max(figure.upper for figure in figures)
            value = math.ceil(1000 * highest - 1e-9) / 1000
        shown = []
        for figure in figures:
            interval = metric.interval(figure)
            shown.append(f"{metric.show(figure.value)} {interval}, n = {figure.n}")
        why = _quoted(f"{end} bound of {'; '.join(shown)}")
        yield f"{metric.name} = {{ {bound} = {value:.3f}, rationale = {why}"


def _quoted(text: str) -> str:
    """Quote as a TOML basic string; JSON's quoting is valid."""
    return json.dumps(_comment(text), ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
