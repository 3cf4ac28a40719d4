"""A new sampling setting: one declaration is key, request and part of store keys."""

from typing import Annotated

import pytest
from pydantic import Field

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.sampling import JudgeSampling, RequestField, Sampling
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.models.client.client import Client, RequestParams


class WithMinP(Sampling):
    min_p: Annotated[float, RequestField()] = Field(
        0.0, ge=0, le=1, description="least share"
    )


def keys(sampling: Sampling) -> list[str]:
    candidate = ServedCandidate(
        "m", Client("http://127.0.0.1:9/v1", "m"), sampling, "identity"
    )
    return list(candidate.keys(Prompt.single("id", "text")))


def test_a_setting_that_does_not_say_if_it_is_sent_is_refused_where_it_is_written() -> (
    None
):
    with pytest.raises(
        TypeError, match=r"Forgotten.min_p: write Annotated\[..., RequestField\(\)\]"
    ):

        class Forgotten(Sampling):
            min_p: float = 0.0


def test_one_declaration_is_request_key_and_help() -> None:
    assert RequestParams.from_sampling(WithMinP(min_p=0.1)).body["min_p"] == 0.1
    assert keys(WithMinP(min_p=0.1)) != keys(WithMinP(min_p=0.2)) != keys(Sampling())
    assert WithMinP.model_fields["min_p"].description == "least share"


def test_what_is_used_in_another_way_is_not_sent() -> None:
    class Noted(JudgeSampling):
        note: Annotated[str, RequestField(sent=False)] = "a"

    assert "note" not in RequestParams.from_sampling(Noted()).body
    assert {"samples", "system_prompt", "max_answer_chars"}.isdisjoint(
        RequestParams.from_sampling(Sampling(system_prompt="x")).body
        | RequestParams.from_sampling(Noted()).body
    )
