"""The tables of a run file, key by key, with the options of a gate run that stand for keys."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from refusal_checks.core.settings import BenchmarkTable, Cascading, ClassifierForm
from refusal_checks.gates.tables import Bounds
from refusal_checks.judges.trust.canary import JudgeFloors
from refusal_checks.plugin.names import INI, PREFIX
from refusal_checks.plugin.options import all_options
from refusal_checks.spec import TABLES
from tools.docs_site import keys
from tools.docs_site.markdown import code, sentence, table

SECTIONS: Mapping[str, type[BaseModel]] = {
    **TABLES,
    "judge.check": JudgeFloors,
    "judge.classifier": ClassifierForm,
    "judge.cascade": Cascading,
    "benchmark": BenchmarkTable,
    "bounds": Bounds,
}
"""The tables of a run file, and below them what the tables of benchmarks may hold."""


def as_table(name: str) -> str:
    """The keys of one of the sections, as Markdown."""
    return keys.as_table(SECTIONS[name], of_keys(name))


def of_keys(name: str) -> dict[str, str]:
    """The options that stand for keys of one table, by key; none that extensions add."""
    found = {}
    for option in all_options():
        owner, _, key = option.key.rpartition(".")
        if owner == name and key in SECTIONS[name].model_fields:
            found[key] = option.name
    return found


def without_key() -> str:
    """The options that stand for no key, with what they take and mean."""
    rows = []
    for option in all_options():
        if not option.key:
            call = f"{option.name} {option.settings['metavar']}"
            rows.append((code(call), sentence(option.settings["help"])))
    return table(("option", "meaning"), rows)


def ini_keys() -> str:
    """The keys of a repository's pytest configuration."""
    rows = [(code(PREFIX + key), sentence(text)) for key, text in INI.items()]
    return table(("key", "meaning"), rows)
