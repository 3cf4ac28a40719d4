"""What ``pytest`` runs in a clone: the project's tests, or the gates of the model it names."""

import signal
from pathlib import Path

import pytest

pytest_plugins = ["refusal_checks.plugin"]

GATES = Path(__file__).with_name("tests") / "gates"

# A shell starts a command with `&` deaf to Ctrl-C, and what tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def asks_for_gates(config: pytest.Config) -> bool:
    """Whether an option of gates is given."""
    # pytest rewrites the plugin's assertions, which must not have been imported before.
    from refusal_checks.plugin import options

    return bool(options.option_values(config))


def pytest_configure(config: pytest.Config) -> None:
    """Run the gates alone if an option says what to gate and no path says what to run."""
    bare = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if bare and asks_for_gates(config):
        config.args = [str(GATES)]
    # A list of tests runs none: syrupy would take all snapshots for unused, and fail.
    if config.option.collectonly:
        config.option.disable_unused_snapshots = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the gates out of the project's tests, unless a path names them: they need a model.

    ``-k`` keeps them. Whoever types ``-k sorrybench`` means that gate, and is told to name a model;
    a pass of the project's own tests would say nothing about one.
    """
    if collection_path == GATES:
        return None if config.option.keyword or asks_for_gates(config) else True
    return None


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave sweeps out unless they were asked for."""
    if "nightly" in config.option.markexpr:
        return
    sweeps = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=sweeps)
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
