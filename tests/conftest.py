"""What holds for all tests: sweeps run at night, and one worker has the engines.

Tests marked ``nightly`` run with ``pytest -m nightly`` alone.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave sweeps out, and keep tests that share engines or a file's fixtures in one worker."""
    for item in items:
        is_e2e = item.path.parent.name == "e2e"
        item.add_marker(pytest.mark.xdist_group("e2e" if is_e2e else str(item.path)))
    if "nightly" in config.option.markexpr:
        return
    kept = [item for item in items if not item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
