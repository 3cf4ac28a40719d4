"""Clients ask again at once, so that faults cost no time."""

import pytest

from refusal_checks.models.client import server_errors


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_errors, "WAIT_INITIAL", 0.001)
