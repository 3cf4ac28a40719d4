"""Plugin of ``refusal-checks gate``: pytest's arguments are models, and its tests the gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusal_checks.run.options.call import PREFIX

SUITE = Path(__file__).parents[1] / "suite.py"
_CANDIDATE = f"{PREFIX}candidate"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take what pytest took for paths of tests as the models under test."""
    named = getattr(config.option, _CANDIDATE, None) or []
    models = [*config.option.file_or_dir, *named]
    if models:
        setattr(config.option, _CANDIDATE, models)
    config.args = [str(SUITE)]
