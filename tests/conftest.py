"""What holds for all tests: those marked ``nightly`` run with ``pytest -m nightly`` alone."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave sweeps out unless they were asked for."""
    if "nightly" in config.option.markexpr:
        return
    sweeps = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=sweeps)
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
