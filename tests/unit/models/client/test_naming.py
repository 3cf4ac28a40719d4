"""Whether a server answers as the model that it was asked for."""

import pytest

from refusal_checks.models.client.client import Client


@pytest.mark.parametrize(
    ("answered", "odd"),
    [
        ("org/m", False),
        ("m-2024-05-13", False),
        ("m:latest", False),
        ("/models/m@main", False),
        ("m@5f0b02c", False),
        ("m-mini", True),
        ("other", True),
    ],
)
def test_versions_of_a_model_are_the_model(answered: str, odd: bool) -> None:
    client = Client("http://127.0.0.1:9/v1", "org/m")
    client.answered = {answered}
    assert (client.naming == {"answers_as": answered}) is odd
