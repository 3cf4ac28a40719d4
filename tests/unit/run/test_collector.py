"""The collector's thresholds are the usual ones again, whatever happens."""

from __future__ import annotations

import gc

import pytest

from refusal_checks.run.collector import RARELY, collecting_rarely


def _fail_within() -> None:
    with collecting_rarely():
        assert gc.get_threshold() == RARELY
        raise KeyError


def test_only_within() -> None:
    usual = gc.get_threshold()
    with pytest.raises(KeyError):
        _fail_within()
    assert gc.get_threshold() == usual
