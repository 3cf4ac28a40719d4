"""Run files: the gates, tables and settings that each of ``files.txt`` defines.

They stand in a golden file, so that a review shows how one changes. ``pytest
tests/unit/gates/test_thresholds.py --snapshot-update`` writes it. ``test_mistakes.py`` is of files
that are refused.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.config.run_spec import RunSpec
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.requirements import describe_margins, requirement
from tests.unit.conftest import Write
from tests.unit.gates.conftest import cases, load

SECTIONS = cases("files.txt")


def lines(spec: RunSpec) -> Iterator[str]:
    """What the files define, without what is as it is by default."""
    for gate in spec.gates:
        said = [gate.id, requirement(gate), describe_margins(gate) * gate.has_bounds]
        plain = Gate("", "")
        for name in ("decision", "on_inconclusive", "provenance", "waiver"):
            if getattr(gate, name) != getattr(plain, name):
                value = getattr(gate, name)
                said.append(
                    f"waived {value.terms}: {value.reason} ({Path(value.source).name})"
                    if name == "waiver"
                    else f"{name} {value}"
                )
        yield f"{', '.join(filter(None, said))} ({Path(gate.source).name})"
    for name, table in spec.benchmarks.items():
        if values := table.model_dump(exclude_unset=True):
            yield f"[{name}] {values}"
    for name, values in spec.dump_set_keys().items():
        yield f"[{name}] {values}"


@pytest.mark.parametrize("section", SECTIONS, ids=[name for name, _ in SECTIONS])
def test_files(
    section: tuple[str, list[str]],
    write: Write,
    tmp_path: Path,
    snapshot: SnapshotAssertion,
) -> None:
    told = []
    for case in section[1]:
        texts = case.split("---\n")
        paths = [
            write(f"gates{number}.toml", text) for number, text in enumerate(texts, 1)
        ]
        found = "".join(f"\n    -> {line}" for line in lines(load(paths)))
        told.append(case + found.replace(f"{tmp_path}/", ""))
    assert "\n\n".join(told) == snapshot
