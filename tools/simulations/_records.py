"""Records of simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Completion, Record


def records_of(
    refused: Sequence[bool], clusters: Sequence[str] = (), kind: Kind | None = None
) -> list[Record]:
    """One record a prompt, by whether it is judged refused; ``clusters`` are the prompts'."""
    records = []
    for number, is_refusal in enumerate(refused):
        label = Label.REFUSAL if is_refusal else Label.COMPLIANCE
        cluster = clusters[number] if clusters else ""
        prompt = Prompt.single(f"p{number}", f"request {number}", cluster=cluster)
        prompt = replace(prompt, kind=kind)
        records.append(Record(prompt, 0, Completion("an answer"), Binary(label)))
    return records
