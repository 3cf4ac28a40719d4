"""The package's judge prompts for published judges, from the front matter of their files."""

from __future__ import annotations

from refusal_checks.judges import template
from tools.docs_site.markdown import code, table


def as_table() -> str:
    """List the prompts that a model's name picks."""
    rows = []
    for name, metadata in template.list_packaged().items():
        if not metadata.models:
            continue
        source = metadata.source
        if source.startswith("https://"):
            source = f"[published form]({source})"
        names = " ".join(code(model.strip("*")) for model in metadata.models)
        rows.append(
            [
                code(name),
                names,
                metadata.measures,
                source or metadata.version,
            ]
        )
    return table(["prompt", "name of the model", "measures", "source"], rows)
