"""When the plugin begins to work: an option of this package is given, or a gate is collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from refusal_checks.plugin.hooks import Gates

_GATES = pytest.StashKey["Gates"]()


class InconclusiveWarning(UserWarning):
    """A gate is inconclusive, and its threshold file asks for a warning."""


InconclusiveWarning.__module__ = "refusal_checks.plugin"  # where users' filters name it


def is_active(config: pytest.Config) -> bool:
    """True once gates or their options are known."""
    return _GATES in config.stash


def activate(config: pytest.Config) -> Gates:
    """The part of the plugin that handles gates; loaded and registered the first time."""
    if not is_active(config):
        from refusal_checks.plugin.hooks import Gates

        config.stash[_GATES] = gates = Gates(config)
        config.pluginmanager.register(gates, "refusal_checks.gates")
    return config.stash[_GATES]
