"""The manifest of a run as rows of a table."""

from collections.abc import Iterator, Mapping, Sequence

from refusal_checks.core.prompts import Kind
from refusal_checks.core.redaction import pathless
from refusal_checks.engines.vllm import ENGINE
from refusal_checks.models.names import RULE_JUDGES
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary


def facts(summary: RunSummary) -> dict[str, list[tuple[str, str]]]:
    """The facts that applied, by the manifest's top-level keys: path and value, without folders."""
    manifest = summary.manifest
    values = manifest.model_dump(exclude_defaults=True)
    for name in _without_effect(summary):
        values.pop(name, None)
    if not _needed_engines(manifest):
        versions = values.get("versions", {})
        values["versions"] = {
            package: version
            for package, version in versions.items()
            if package not in ENGINE.packages
        }
    facts = {}
    for name, value in values.items():
        rows = list(_flat("", value))
        if rows:
            facts[name] = rows
    return facts


def _without_effect(summary: RunSummary) -> Iterator[str]:
    """Keys of the manifest that had no effect in this run."""
    manifest = summary.manifest
    drawing = [
        name
        for name, judge in manifest.models.judges.items()
        if name not in RULE_JUDGES and not judge.is_classifier
    ]
    kinds_asked = {benchmark.kind for benchmark in summary.benchmarks.values()}
    if manifest.candidate.startswith("replay:"):
        yield "sampling"
    if manifest.models.judges and not drawing:
        yield "judge_sampling"
    if kinds_asked and not kinds_asked & {Kind.RECOGNITION.value, ""}:
        yield "multiple_choice"
    if not _needed_engines(manifest):
        yield "placement"
        yield "engines"


def _needed_engines(manifest: Manifest) -> bool:
    """False if no model was asked; True if the manifest does not say."""
    engines = manifest.engines
    return engines is None or bool(engines.started or engines.attached)


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            shown = pathless(str(name))
            yield from _flat(f"{path} › {shown}" if path else shown, inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value:
            yield path, pathless(", ".join(map(str, value)))
    elif value not in (None, ""):
        yield path, pathless(str(value))
