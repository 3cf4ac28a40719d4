"""A judge that cannot be built says for which benchmark."""

from __future__ import annotations

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.judges.panel import Way, panels
from refusal_checks.models.spec import Rule


def test_the_benchmark_that_needs_a_model_is_named() -> None:
    with pytest.raises(ModelError, match=r"^chisafety_qa, own: name a model with --judge: "):
        panels({"chisafety_qa": Way("degree"), "own": Way("degree")}, [Rule("keyword")], False)
