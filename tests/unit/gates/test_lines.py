"""Where a run file defines a gate."""

from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.gates.gate import Gate
from refusal_checks.gates.lines import line_of
from tests.unit.conftest import Write

FILE = """\ufeff# a comment with [bench] in it
[settings]
confidence = 0.9

[bench]
rejection_rate = { min = 0.8 }  # why
category.fraud.rejection_rate = { min = 0.5 }

[bench."category"."网络 & scams"]
rejection_rate = { min = 0.7 }

[other]
prompts = '''
[bench]
rejection_rate
'''
"""


def test_a_group_s_name_makes_no_command_of_a_ci_system_of_a_test_s_id() -> None:
    for group in ("##vso[task.complete]", "##[error]", "##teamcity[x]"):
        gate = replace(GATE, group_kind="category", group=group)
        assert gate.id == f"bench-rejection_rate-# {group[1:]}"


GATE = Gate("bench", "rejection_rate", minimum=0.8)


@pytest.mark.parametrize(
    ("text", "benchmark", "metric", "group", "line"),
    [
        (FILE, "bench", "rejection_rate", None, 6),
        (FILE, "bench", "rejection_rate", "网络 & scams", 10),
        (FILE, "bench", "invalid_rate", None, 5),
    ],
)
def test_a_gate_knows_its_line(
    write: Write,
    text: str,
    benchmark: str,
    metric: str,
    group: str | None,
    line: int | None,
) -> None:
    gate = Gate(benchmark, metric, 0.8, None, group and "category", group)
    gate = replace(gate, source=str(write("gates.toml", text)))
    assert line_of(gate) == line


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_where_toml_ends_them(tmp_path: Path, end: str) -> None:
    path = tmp_path / "gates.toml"
    lines = (
        "# a\u2028b\x85c",
        "[bench]",
        "# d\u2029",
        "rejection_rate = { min = 0.8 }",
        "",
    )
    path.write_bytes(end.join(lines).encode())
    assert line_of(replace(GATE, source=str(path))) == 4


@pytest.mark.parametrize("source", ["", "default gate", "/nowhere/gates.toml"])
def test_a_gate_of_no_file_has_no_line(source: str) -> None:
    assert line_of(replace(GATE, source=source)) is None
