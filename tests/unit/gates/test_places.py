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


@pytest.mark.parametrize("source", ["", "default gate", "/nowhere/gates.toml"])
def test_a_gate_of_no_file_has_no_line(source: str) -> None:
    assert replace(GATE, source=source).line is None


def test_a_file_that_is_none_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_bytes(b"\xff\xfe[bench]")
    assert replace(GATE, source=str(tmp_path / "gates.toml")).line is None
    assert replace(GATE, source=str(tmp_path)).line is None
