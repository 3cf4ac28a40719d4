"""The package's judge prompts for published judges, from the heads of their files."""

from __future__ import annotations

from refusal_checks.judges import template
from tools.docs_site.markdown import code, table


def as_table() -> str:
    """List the prompts that a model's name picks."""
    rows = []
    for name, head in template.heads().items():
        if not head.models:
            continue
        source = head.source
        if source.startswith("https://"):
            source = f"[source]({source})"
        names = " ".join(code(model.strip("*")) for model in head.models)
        rows.append(
            [code(name), names, head.measures, head.reads, f"{head.version}; {source}"]
        )
    return table(
        ["prompt", "name of the model", "measures", "reads", "published form"], rows
    )
