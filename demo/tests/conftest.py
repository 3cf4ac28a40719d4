"""What the tests of the demo models share."""

from tests import toy_model

toy_model.use()
