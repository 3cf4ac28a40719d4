"""Settings: one line for a value that breaks their limits."""

import pytest

from refusal_checks.config.tables import ModelTable
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Frozen


@pytest.mark.parametrize(
    ("settings", "key", "values"),
    [
        (Sampling, "samples", [0, 129, "many"]),
        (Sampling, "temperature", [-0.1, float("nan"), None]),
        (JudgeSampling, "max_tokens", [15]),
        (ModelTable, "requests_per_minute", [0, float("inf")]),
    ],
)
def test_a_wrong_value_is_named_in_one_line(
    settings: type[Frozen], key: str, values: list[object]
) -> None:
    for value in values:
        with pytest.raises(ModelError) as caught:
            settings.read({key: value}, "[table]", ModelError)
        message = str(caught.value)
        assert message.startswith(f"[table]: {key} = {value!r}: ")
        assert "\n" not in message


def test_several_verdicts_need_chance() -> None:
    message = "set the judge's temperature above 0, for example 0.6"
    with pytest.raises(UserError, match=message):
        JudgeSampling.read({"samples": 3}, "--judge-")
    assert JudgeSampling.read({"samples": 3, "temperature": 0.1}, "").samples == 3
