"""The manifest as rows of a table: what applied to this run, and no path of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import pathless
from refusal_checks.engines import kinds
from refusal_checks.models.demo import BUNDLED
from refusal_checks.models.spec import RULE_JUDGES
from refusal_checks.results.summary import RunSummary


def facts(summary: RunSummary) -> dict[str, list[tuple[str, str]]]:
    """Path and value of every fact in a manifest that applied to its run, by its first key."""
    values = summary.manifest.model_dump()
    idle = set(_idle(summary))
    found = {name: list(_flat("", value)) for name, value in values.items() if name not in idle}
    if _starts_nothing(summary):
        engines = {package for name in kinds.names() for package in kinds.get(name).packages}
        rows = found.get("versions", [])
        found |= {"versions": [row for row in rows if row[0] not in engines]}
    return {name: rows for name, rows in found.items() if rows}


def _idle(summary: RunSummary) -> Iterator[str]:
    """Settings that no part of the run has used."""
    manifest = summary.manifest
    if manifest.candidate.startswith("replay:"):
        yield "sampling"
    if manifest.models.judges and set(manifest.models.judges) <= {*RULE_JUDGES, BUNDLED}:
        yield "judge_sampling"
    asked = {benchmark.kind for benchmark in summary.benchmarks.values()}
    if asked and not asked & {Kind.RECOGNITION.value, ""}:
        yield "multiple_choice"
    if _starts_nothing(summary):
        yield from ("placement", "engines")


def _starts_nothing(summary: RunSummary) -> bool:
    """True if no engine was needed, of this machine or of another."""
    engines = summary.manifest.engines
    return engines is not None and not engines.started and not engines.attached


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    """The values that say something."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            shown = pathless(str(name))
            yield from _flat(f"{path} › {shown}" if path else shown, inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value:
            yield path, pathless(", ".join(map(str, value)))
    elif value not in (None, ""):
        yield path, pathless(str(value))
