"""What the tests of the demo models share."""

import pytest

from tests import toy_model


# Not on import: a `pytest` that gates a model loads this file, too, and means the real weights.
@pytest.fixture(scope="session", autouse=True)
def _toys() -> None:
    toy_model.use()
