"""Settings: their limits, and one line for a value that breaks them."""

import pytest

from refusal_checks.config.tables import EngineTable, ModelTable
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Frozen, Limits

WRONG: list[tuple[type[Frozen], str, list[object]]] = [
    (Sampling, "samples", [0, 129, "many"]),
    (Sampling, "temperature", [-0.1, 2.1, float("nan"), None]),
    (Sampling, "top_p", [0, 1.1]),
    (Sampling, "top_k", [-1]),
    (Sampling, "max_tokens", [0]),
    (Sampling, "seed", [2**31, -1]),
    (JudgeSampling, "max_tokens", [15]),
    (JudgeSampling, "top_p", [0]),
    (JudgeSampling, "top_k", [-1]),
    (JudgeSampling, "samples", [0, 129]),
    (Limits, "in_flight", [0]),
    (EngineTable, "start_timeout", [0]),
    (Limits, "request_timeout", [-5]),
    (ModelTable, "requests_per_minute", [0, float("inf")]),
    (ModelTable, "concurrency", [0]),
]


@pytest.mark.parametrize(("settings", "key", "values"), WRONG)
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
    with pytest.raises(UserError) as caught:
        JudgeSampling.read({"samples": 3}, "--judge-")
    message = "set the judge's temperature above 0, for example 0.6"
    assert message in str(caught.value)
    assert JudgeSampling.read({"samples": 3, "temperature": 0.1}, "").samples == 3


def test_verdicts_have_seeds_of_their_own_and_so_have_second_attempts() -> None:
    assert list(JudgeSampling(samples=3, temperature=1, seed=7).seeds()) == [7, 9, 11]


def test_an_unknown_key_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="known: samples, temperature") as caught:
        Sampling.read({"sample": 5}, "--set")
    assert str(caught.value).startswith("--set: sample = 5: ")
