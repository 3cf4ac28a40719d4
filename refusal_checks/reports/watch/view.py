"""What the page shows: plain values for JSON, without invisible or endless texts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.text import clean
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.estimates import select
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import explain
from refusal_checks.reports.formats.html.visible import visible
from refusal_checks.reports.watch.reading import LiveRun
from refusal_checks.results.shipping import shipping

KEPT = 300
"""Most answers that a page that is opened late is given."""

CHARACTERS = 400
"""Most characters of each text."""

SHARE = 0.05
"""Share of the time that may go into figures of benchmarks that are not complete."""

Values = dict[str, Any]


class View:
    """The runs that are watched, as JSON-like values.

    Args:
        redact: show no texts, whatever the runs themselves show.
    """

    def __init__(self, folders: Sequence[Path], redact: bool = False) -> None:
        self._runs = [LiveRun(folder, redact) for folder in folders]
        self._answers: deque[Values] = deque(maxlen=KEPT)
        self._number = 0
        self._figures: dict[tuple[int, str], tuple[int, Estimate | None]] = {}
        self._not_before = 0.0

    def refresh(self) -> None:
        """Read what the runs have written."""
        for place, run in enumerate(self._runs):
            for benchmark, answers in run.refresh():
                for record in answers:
                    self._number += 1
                    self._answers.append(
                        {"number": self._number, "run": place}
                        | _answer(benchmark, record, run.redacted)
                    )

    @property
    def goes_on(self) -> bool:
        """True if any run has not ended."""
        return any(run.status in ("starting", "running") for run in self._runs)

    def values(self, after: int = 0) -> Values:
        """Everything that the page shows.

        Args:
            after: the number of the last answer that the page has.
        """
        self._look_at_figures()
        new = [each for each in self._answers if each["number"] > after]
        return {
            "runs": [self._run(place, run) for place, run in enumerate(self._runs)],
            "answers": new,
            "goes_on": self.goes_on,
        }

    def _run(self, place: int, run: LiveRun) -> Values:
        summary, plan = run.summary, run.plan
        manifest = summary.manifest if summary else None
        ships = shipping(summary) if summary else None
        return {
            "id": run.path.name,
            "candidate": visible(manifest.shown if manifest else plan.candidate if plan else ""),
            "judge": visible(manifest.judge if manifest else plan.judge if plan else ""),
            "status": run.status,
            "phase": visible(run.phase),
            "answer": visible(ships.line) if ships else "",
            "failure": clean(summary.failure, 1000) if summary else "",
            "redacted": run.redacted,
            "benchmarks": [
                {"name": name, "planned": each.planned, "judged": each.judged}
                | {"answers": each.answers, "invalid": each.invalid, "done": each.done}
                for name, each in run.counts().items()
            ],
            "gates": [self._gate(place, run, gate) for gate in run.gates],
        }

    def _gate(self, place: int, run: LiveRun, gate: Gate) -> Values:
        found = run.published(gate)
        verdict = found.verdict if found else None
        if verdict is None and run.summary:
            verdict = run.summary.verdicts.get(gate.id)
        if verdict:
            known = _figure(gate, verdict.estimate) | {"mark": explain.mark(verdict)}
        elif found and found.error:
            known = {"mark": "ERROR", "error": clean(run.said(found.error), 500)}
        else:
            _, estimate = self._figures.get((place, gate.id), (0, None))
            known = (_figure(gate, estimate) if estimate else {}) | {"mark": ""}
        return {"id": visible(gate.id), "must": visible(gate.threshold), **known, **_scale(gate)}

    def _look_at_figures(self) -> None:
        """Estimate the gates that have new answers, without keeping the machine busy."""
        begun = time.monotonic()
        if begun < self._not_before:
            return
        for place, run in enumerate(self._runs):
            for gate in run.gates:
                records = run.records.get(gate.benchmark, ())
                known, _ = self._figures.get((place, gate.id), (0, None))
                if len(records) != known and not run.published(gate):
                    level = run.plan.level if run.plan else Verdict.level
                    estimate = _estimate(gate, records, level)
                    self._figures[place, gate.id] = len(records), estimate
        ended = time.monotonic()
        self._not_before = ended + (ended - begun) / SHARE


def _estimate(gate: Gate, records: Sequence[Record], level: float) -> Estimate | None:
    try:
        return METRICS[gate.metric].estimate(select(gate, records), level)
    except (EvaluationError, KeyError):
        return None


def _figure(gate: Gate, estimate: Estimate) -> Values:
    return {
        "figure": explain.figure(gate, estimate.value),
        "interval": explain.interval(gate, estimate),
        "n": estimate.n,
        "is_within": gate.limits.holds(estimate.value),
        "ends": [estimate.lower, estimate.value, estimate.upper],
    }


def _scale(gate: Gate) -> Values:
    metric = METRICS.get(gate.metric)
    ends = [metric.lowest, metric.highest] if metric else [0.0, 1.0]
    return {"scale": ends, "bounds": [gate.minimum, gate.maximum]}


def _answer(benchmark: str, record: Record, redacted: bool) -> Values:
    judgement, prompt = record.judgement, record.prompt
    word, tone = judgement.shown
    text = record.completion.text if record.completion else ""
    texts = () if redacted else (("prompt", prompt.request), ("answer", text))
    return {
        "benchmark": benchmark,
        "id": visible(prompt.id)[:CHARACTERS],
        "groups": [visible(group)[:60] for group in prompt.groups.values()],
        "verdict": visible(word),
        "tone": tone,
    } | {name: _short(value) for name, value in texts}


def _short(text: str) -> str:
    shown = visible(text[: CHARACTERS + 1])
    return shown if len(shown) <= CHARACTERS else shown[: CHARACTERS - 1] + "…"


def statuses(view: View) -> Iterator[str]:
    """One line about each run, for a terminal."""
    for run in view.values()["runs"]:
        yield clean(f"{run['candidate'] or run['id']}: {run['answer'] or run['status']}", 500)
