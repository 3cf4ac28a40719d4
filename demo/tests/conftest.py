"""What the tests of the demo models share."""

from tests import toy_model
from tests.conftest import (
    pytest_collection_modifyitems as pytest_collection_modifyitems,
)

toy_model.use()
