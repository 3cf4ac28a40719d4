"""The manifest: what it reads and writes, and the conditions under which two runs compare."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest

from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest, conditions


def test_a_judge_without_a_model_is_its_own_version() -> None:
    manifest = Manifest.model_validate({"judge_prompts": {"b": {"keyword": "f00d"}}})
    assert manifest.judges_of("b")["keyword"].version == "keyword"
    with pytest.raises(KeyError):
        manifest.judges_of("other")


MANIFEST: dict[str, Any] = {
    "candidate": "org/model",
    "models": {
        "judges": {
            "org/judge": {
                "version": "org/judge@abc",
                "args": ["--tensor-parallel-size", "2"],
                "template_kwargs": {"persona": "judge"},
                "reasoning_end": "",
            }
        }
    },
    "judge_prompts": {"bench": {"org/judge": "f00d"}},
    "spec": {"judge": {"temperature": 0.0, "max_tokens": 64, "seed": 0}},
    "sampling": {
        "samples": 5,
        "temperature": 0.6,
        "seed": 0,
        "system_prompt": "",
        "stop": (),
    },
    "data": {"bench": {"revision": "v1", "sha256": "beef", "prompts": 80}},
}


JUDGE = ("models", "judges", "org/judge")
"""Where the judge is described."""


def compared(place: Sequence[str] = (), value: Any = None) -> dict[str, str]:
    """The conditions, perhaps with another value at a place of the manifest."""
    manifest = deepcopy(MANIFEST)
    if place:
        inner = manifest
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value
    return conditions(Manifest.model_validate(manifest), "bench")


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ((*JUDGE, "version"), "org/judge@def", {"judge"}),
        ((*JUDGE, "template_kwargs"), {"persona": "other"}, {"judge"}),
        ((*JUDGE, "args"), [], set()),
        (("judge_prompts", "bench"), {"org/judge": "cafe"}, {"judge prompt"}),
        (
            ("judge_prompts", "bench"),
            {"org/judge": "f00d", "keyword": "1"},
            {"judge", "judge prompt"},
        ),
        (("spec", "judge", "max_tokens"), 128, {"judge max_tokens"}),
        (("judge_thresholds",), "refuse 0.9, answer 0.5", {"judge thresholds"}),
        (("sampling", "temperature"), 1.0, {"sampling temperature"}),
        (("sampling", "system_prompt"), "Be brief.", {"sampling system_prompt"}),
        (("data", "bench", "sha256"), "dead", {"data"}),
        (("candidate",), "org/other", set()),
        (("sampling", "seed"), 7, set()),
    ],
)
def test_what_makes_runs_incomparable(
    place: Sequence[str], value: Any, named: set[str]
) -> None:
    before, now = compared(), compared(place, value)
    names = before.keys() | now.keys()
    assert {name for name in names if before.get(name) != now.get(name)} == named


def test_a_system_prompt_is_named_and_not_published() -> None:
    assert "secret" not in str(
        compared(("sampling", "system_prompt"), "a secret of ours")
    )


def test_an_attached_judge_is_known_by_its_model_not_its_host() -> None:
    def attached(version: str) -> str:
        return compared(JUDGE, {"version": version})["judge"]

    assert attached("http://a:1/v1#judge") == attached("http://b:2/v1#judge") == "judge"
    assert attached("http://a:1/v1#") != attached("http://b:2/v1#")


def test_recorded_answers_have_no_sampling() -> None:
    found = compared(("candidate",), "replay:answers.csv")
    assert found["sampling"] == "recorded answers"
    assert not [name for name in found if name.startswith("sampling ")]


def test_only_answers_that_come_from_the_store_are_dated() -> None:
    asked = {"answers": 4, "reused": 2, "stored_from": "1 May", "stored_until": "1 May"}
    some = Execution.model_validate(asked)
    assert some.stored == "2 of 6 answers from the store, of 1 May"
    none = Execution.model_validate({**asked, "reused": 0})
    assert not none.stored, "rows that cannot be used are stored under their keys"
