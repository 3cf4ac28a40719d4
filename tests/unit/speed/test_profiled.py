"""What a profile says."""

from __future__ import annotations

import cProfile
from pathlib import Path

from tests.speed.profiled import shown, top


def busy() -> int:
    return sum(each(number) for number in (7, 8))


def each(number: int) -> int:
    total = 0
    while total < 300_000 * number:
        total += number
    return total


def test_functions_with_the_most_own_time_come_first(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(busy)
    profile.dump_stats(tmp_path / "profile")
    found = top(tmp_path / "profile", 2)
    assert "test_profiled.each" in found[0].name
    assert found[0].calls == 2
    assert 0 < found[1].share <= found[0].share <= 1


def test_a_function_is_named_by_its_module() -> None:
    assert shown("/a/refusal_checks/core/store.py", 12, "save") == "core/store.save:12"
    assert shown("~", 0, "<built-in method builtins.len>") == "built-in method builtins.len"
