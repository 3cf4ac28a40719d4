"""What holds for all tests: those marked ``nightly`` run with ``pytest -m nightly`` alone."""

import signal

import pytest

# A shell starts a command with `&` deaf to Ctrl-C, and what tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave sweeps out unless they were asked for."""
    if "nightly" in config.option.markexpr:
        return
    sweeps = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=sweeps)
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
