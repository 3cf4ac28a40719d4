"""Optional dependencies: a missing one is named with the extra that installs it."""

from __future__ import annotations

import sys

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.core.extensions import require_extra
from refusal_checks.metrics.statistics import descriptive
from refusal_checks.reports.page.charts import statistics


def test_a_missing_dependency_is_named_with_its_extra() -> None:
    require_extra("json", "charts", "charts are drawn by")
    with pytest.raises(
        UserError, match=r'"refusal-checks\[charts\]"\): charts are drawn by no_such'
    ):
        require_extra("no_such_module", "charts", "charts are drawn by")


def test_without_diptest_a_distribution_has_no_dip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptive, "find_spec", {"json": sys}.get)
    found = descriptive.distribution([0, 1, 2, 2, 5], 0, 5)
    assert found.bimodality is not None
    assert found.dip is None
    assert found.p_value is None
    assert "no dip test (install refusal-checks[cfsafety])" in statistics(found)
