"""Long sweeps are marked ``nightly``: ``pytest -m nightly`` runs them, and no other run does."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "nightly" in config.option.markexpr:
        return
    kept = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
