"""What threshold files say about single gates: their bounds and their waivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import ThresholdError
from refusal_checks.core.mistakes import near, share
from refusal_checks.core.text import clean
from refusal_checks.gates import table_names
from refusal_checks.gates.bounds import CORRECTED, Bounds
from refusal_checks.gates.default_gates import FileBounds
from refusal_checks.gates.gate import Gate, GateKey
from refusal_checks.gates.waiver import FORM, LONGEST, Waiver
from refusal_checks.metrics import METRICS, Metric

Written = Mapping[GateKey, FileBounds | None]
"""What one table says, None for "no such gate"."""


def read(path: Path, key: GateKey, value: Any, known: Sequence[str]) -> FileBounds | None:
    """The bounds of one gate; None if the file removes it.

    Args:
        known: the metrics of its benchmark.

    Raises:
        ThresholdError: names the file, the table, the key and what to write.
    """
    name, where = key[1], _where(str(path), key)
    if name == "waive":
        raise ThresholdError(
            f"{where}: move it into the table of the gate that may fail: METRIC = {{ {FORM} }}"
        )
    table_names.require_metric(where, key, value, known)
    if value is False:
        return None
    if not isinstance(value, dict):
        number = value if isinstance(value, float) else "..."
        raise ThresholdError(
            f"{where} = {value!r}: write {{ min = {number} }} or {{ max = {number} }}"
        )
    bounds = Bounds.read(value, where, ThresholdError)
    _require_within(where, METRICS[name], bounds)
    if bounds.use == "corrected" and name != CORRECTED:
        raise ThresholdError(f'{where}: use = "corrected": only {CORRECTED} can be corrected')
    return str(path), bounds


def _where(source: str, key: GateKey) -> str:
    benchmark, metric, kind, group = key
    return f"{source}: [{'.'.join(filter(None, (benchmark, kind, group)))}] {metric}"


def _require_within(where: str, metric: Metric, bounds: Bounds) -> None:
    ranges = (
        ((bounds.min, bounds.max), metric.lowest, metric.highest),
        ((bounds.max_drop, bounds.max_rise), 0.0, metric.span),
    )
    for values, lowest, highest in ranges:
        for value in values:
            if value is not None and not lowest <= value <= highest:
                is_percent = highest == 1 and 2 <= value <= 100
                remedy = f"write {share(value)}: " if is_percent else ""
                why = f"{value:g} is outside [{lowest:g}, {highest:g}]"
                raise ThresholdError(f"{where}: {remedy}{why}")


def without_waivers(written: Written, waivers: dict[GateKey, Waiver]) -> Written:
    """The keys that define or remove a gate; ``waivers`` is given those that only waive one.

    One of an earlier file yields to a gate that now brings its own.
    """
    alone = {key: each for key, each in written.items() if each and each[1].only_waives}
    for key, (source, bounds) in alone.items():
        if bounds.waive:
            waivers[key] = bounds.waive.of(source)
    for key in written.keys() - alone.keys():
        each = written[key]
        if each and each[1].waive:
            waivers.pop(key, None)
    return {key: each for key, each in written.items() if key not in alone}


def with_waivers(
    gates: Sequence[Gate], waivers: Mapping[GateKey, Waiver], day: date
) -> tuple[Gate, ...]:
    """The gates with the waivers that stand alone, which may be in any file.

    Args:
        day: today.

    Raises:
        ThresholdError: a waiver is of no gate, or ends too far in the future.
    """
    known = {gate.key: gate.id for gate in gates}
    for key, waiver in waivers.items():
        if key not in known:
            name = "-".join(filter(None, (key[0], key[1], key[3])))
            raise ThresholdError(
                f"{_where(waiver.source, key)}: write min or max beside waive, or remove the "
                f"waiver: there is no gate {name} to waive{near(name, known.values(), 0.75)}"
            )
    found = tuple(replace(gate, waiver=waivers.get(gate.key, gate.waiver)) for gate in gates)
    for gate in found:
        if gate.waiver and gate.waiver.until > day + LONGEST:
            raise ThresholdError(
                f"{_where(gate.waiver.source, gate.key)} waive.until = {gate.waiver.until}: write "
                f"a day up to {day + LONGEST}, and renew the waiver then: a waiver holds for at "
                f"most {LONGEST.days} days"
            )
    return found


def waivers(gates: Iterable[Gate], day: date) -> tuple[list[str], list[str]]:
    """The gates with a waiver that holds on a day, and those with one that has expired."""
    held: tuple[list[str], list[str]] = [], []
    for gate in gates:
        if gate.waiver:
            valid = gate.waiver.holds(day)
            what = "is waived" if valid else "is no longer waived: it was"
            held[not valid].append(f"{gate.id} {what} {clean(gate.waiver.in_words, 100)}")
    return held
