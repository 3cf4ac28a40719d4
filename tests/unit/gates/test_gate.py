"""Where a threshold file defines a gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.gates.gate import Gate

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
WORST = "worst_attack_rejection_rate"
GATE = Gate("bench", "rejection_rate", minimum=0.8)


@pytest.mark.parametrize(
    ("gate", "line"),
    [
        (GATE, 6),
        (replace(GATE, group_kind="category", group="fraud"), 7),
        (replace(GATE, group_kind="category", group="网络 & scams"), 10),
        (replace(GATE, metric="invalid_rate"), 5),
        (replace(GATE, benchmark="elsewhere"), None),
    ],
)
def test_a_gate_knows_its_line(
    write: Callable[[str, str], Path], gate: Gate, line: int | None
) -> None:
    assert replace(gate, source=str(write("gates.toml", FILE))).line == line


ATTACKED = f"""[bench]
rejection_rate = {{ min = 0.8 }}
{WORST} = {{ min = 0.3 }}
attacks.base64 = {{ rejection_rate = {{ min = 0.6 }} }}

[bench.attacks.prefill]
rejection_rate = {{ min = 0.7 }}
category.fraud.rejection_rate = {{ min = 0.5 }}

[bench.category.fraud]
{WORST} = {{ min = 0.2 }}

["bench+rot13"]
rejection_rate = {{ min = 0.4 }}

[listed]
rejection_rate = {{ min = 0.8 }}
attacks = ["prefill"]

[listed_worst.attacks]
{WORST} = {{ min = 0.3 }}

[plain]
"""


@pytest.mark.parametrize(
    ("benchmark", "metric", "group", "line"),
    [
        ("bench", "rejection_rate", None, 2),
        ("bench+prefill", "rejection_rate", None, 7),
        ("bench+prefill", "rejection_rate", "fraud", 8),
        ("bench+prefill", "invalid_rate", None, 6),
        ("bench+base64", "rejection_rate", None, 4),
        ("bench+attacks", WORST, None, 3),
        ("bench+attacks", WORST, "fraud", 11),
        ("bench+rot13", "rejection_rate", None, 14),
        ("listed+prefill", "rejection_rate", None, 18),
        ("listed_worst+attacks", WORST, None, 21),
        ("plain+prefill", "rejection_rate", None, 23),
        ("elsewhere+prefill", "rejection_rate", None, None),
    ],
)
def test_a_gate_under_attack_knows_its_line(
    write: Callable[[str, str], Path],
    benchmark: str,
    metric: str,
    group: str | None,
    line: int | None,
) -> None:
    gate = Gate(benchmark, metric, 0.8, None, group and "category", group)
    assert replace(gate, source=str(write("gates.toml", ATTACKED))).line == line


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_where_toml_ends_them(tmp_path: Path, end: str) -> None:
    path = tmp_path / "gates.toml"
    lines = ("# a\u2028b\x85c", "[bench]", "# d\u2029", "rejection_rate = { min = 0.8 }", "")
    path.write_bytes(end.join(lines).encode())
    assert replace(GATE, source=str(path)).line == 4


@pytest.mark.parametrize("source", ["", "default gate", "/nowhere/gates.toml"])
def test_a_gate_of_no_file_has_no_line(source: str) -> None:
    assert replace(GATE, source=source).line is None


def test_a_file_that_is_none_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_bytes(b"\xff\xfe[bench]")
    assert replace(GATE, source=str(tmp_path / "gates.toml")).line is None
    assert replace(GATE, source=str(tmp_path)).line is None
