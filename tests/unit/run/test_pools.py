"""Benchmarks that stand for all attacks on another."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import cast

import pytest

from refusal_checks.benchmarks import catalogue
from refusal_checks.core.records import Record
from refusal_checks.gates.gate import Gate
from refusal_checks.run.pools import Pools
from refusal_checks.run.prepare import Prepared


class Held(list[Record]):
    """Records whose release can be seen."""


@pytest.mark.parametrize(
    ("benchmark", "is_kept"),
    [("smoke_unsafe+prefill", True), ("smoke_unsafe", False), ("smoke_unsafe+rot13", False)],
)
def test_only_answers_that_a_pool_needs_are_kept(benchmark: str, is_kept: bool) -> None:
    pool = Gate("smoke_unsafe+attacks", "worst_attack_rejection_rate", 0.5)
    known = catalogue({}, {"smoke_unsafe": ("prefill", "base64")})
    options = SimpleNamespace(benchmarks=known)
    pools = Pools(cast("Prepared", SimpleNamespace(gates=(pool,), options=options)))
    records = Held()
    released = weakref.ref(records)
    pools.add(benchmark, records, ())
    del records
    assert (released() is not None) == is_kept
