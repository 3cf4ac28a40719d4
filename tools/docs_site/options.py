"""Tables of the run file's keys, and of the options of a gate run."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from refusal_checks.config.gate_bounds import Bounds
from refusal_checks.config.tables import NAMED, TABLES
from refusal_checks.core.judgements import Reason
from refusal_checks.core.reservation_kinds import RESERVATIONS
from refusal_checks.core.settings import (
    BenchmarkTable,
    ClassifierForm,
    Thresholds,
)
from refusal_checks.plugin.options import INI, OPTIONS, PREFIX
from refusal_checks.trust.minimums import JudgeMinimums
from tools.docs_site import keys
from tools.docs_site.markdown import code, sentence, table

SECTIONS: Mapping[str, type[BaseModel]] = {
    **{name: kind for name, kind in TABLES.items() if kind.model_fields},
    "judge.check": JudgeMinimums,
    "judge.classifier": ClassifierForm,
    "judge.thresholds": Thresholds,
    "benchmark": BenchmarkTable,
    "bounds": Bounds,
}
"""The tables of a run file, their subtables, and what the tables of benchmarks may hold."""


def as_table(name: str) -> str:
    """List the keys of one section; what stands in another section is left out there."""
    options = of_keys(name)
    if name != "judge":
        return keys.as_table(SECTIONS[name], options)

    own = keys.described(SECTIONS["judge"])
    candidate = keys.described(SECTIONS["candidate"])
    shared = [key for key, meaning in own.items() if candidate.get(key) == meaning]
    tables = [key for key in own if f"judge.{key}" in SECTIONS]
    text = keys.as_table(SECTIONS[name], options, elsewhere=[*shared, *tables])
    names = ", ".join(code(key) for key in shared)
    return f"{text}\n\nAs in `[candidate]`: {names}."


def of_keys(name: str) -> dict[str, str]:
    """Map keys of one table to the options that set them."""
    names = {}
    for option, key in NAMED.items():
        owner, _, own = key.rpartition(".")
        if owner == name:
            names[own] = f"--{option}"
    return names


def without_key() -> str:
    """List the options that set no key."""
    rows = []
    for option in OPTIONS:
        if option.name not in NAMED:
            call = code(f"--{option.name} {option.metavar}")
            rows.append((call, sentence(option.about)))
    return table(("option", "meaning"), rows)


def reservations(kind: str) -> str:
    """List the reservations of one kind."""
    rows = [
        (code(name), sentence(meaning))
        for name, (of_kind, meaning) in RESERVATIONS.items()
        if of_kind == kind
    ]
    return table(("id", "meaning"), rows)


def reasons() -> str:
    """List the reasons of answers without a verdict, each with what to do."""
    by_remedy: dict[str, list[str]] = {}
    for reason in Reason:
        by_remedy.setdefault(reason.remedy, []).append(code(reason.value))
    rows = [(", ".join(names), remedy) for remedy, names in by_remedy.items()]
    return table(("reason", "what to do"), rows)


def ini_keys() -> str:
    """List the keys of a repository's pytest configuration."""
    rows = [(code(PREFIX + key), sentence(text)) for key, text in INI.items()]
    return table(("key", "meaning"), rows)
