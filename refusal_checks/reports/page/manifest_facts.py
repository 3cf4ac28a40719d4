"""The manifest of a run and how it went, as table rows."""

from collections.abc import Iterator, Mapping, Sequence

from refusal_checks.core.redaction import shorten_paths
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest


def facts(manifest: Manifest, execution: Execution) -> dict[str, list[tuple[str, str]]]:
    """Paths and values by top-level key, without folders."""
    facts = {}
    known = manifest.model_dump(exclude_defaults=True)
    known |= execution.model_dump(exclude_defaults=True)
    for name, value in known.items():
        rows = list(_flat("", value))
        if rows:
            facts[name] = rows
    return facts


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            shown = shorten_paths(str(name))
            yield from _flat(f"{path} › {shown}" if path else shown, inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value:
            yield path, shorten_paths(", ".join(map(str, value)))
    elif value not in (None, ""):
        yield path, shorten_paths(str(value))
