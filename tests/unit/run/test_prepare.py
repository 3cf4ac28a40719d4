"""Which earlier run is compared with: conditions, and answers that are still to be had."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from refusal_checks.results.manifest import Manifest, conditions

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
    "judge_sampling": {"temperature": 0.0, "max_tokens": 64, "seed": 0},
    "sampling": {"samples": 5, "temperature": 0.6, "seed": 0, "system_prompt": "", "stop": ()},
    "data": {"bench": {"revision": "v1", "sha256": "beef", "prompts": 80}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    manifest = deepcopy(MANIFEST)
    place, *rest = path.split(".")
    inner = manifest
    while rest:
        inner, (place, *rest) = inner[place], rest
    inner[place] = value
    return manifest


def compared(manifest: dict[str, Any]) -> dict[str, str]:
    return conditions(Manifest.model_validate(manifest), "bench")


def differing(manifest: dict[str, Any]) -> set[str]:
    one, other = compared(MANIFEST), compared(manifest)
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("models.judges.org/judge.version", "org/judge@def", {"judge"}),
        ("models.judges.org/judge.template_kwargs", {"persona": "other"}, {"judge"}),
        ("models.judges.org/judge.reasoning_end", "</think>", {"judge"}),
        ("judge_prompts.bench", {"org/judge": "cafe"}, {"judge prompt"}),
        ("judge_prompts.bench", {"org/judge": "f00d", "keyword": "1"}, {"judge", "judge prompt"}),
        ("judge_sampling.max_tokens", 128, {"judge max_tokens"}),
        ("sampling.temperature", 1.0, {"sampling temperature"}),
        ("sampling.samples", 1, {"sampling samples"}),
        ("sampling.system_prompt", "Be brief.", {"sampling system_prompt"}),
        ("data.bench.sha256", "dead", {"data"}),
        ("candidate", "org/other", set()),
        ("sampling.seed", 7, set()),
        ("judge_sampling.seed", 7, set()),
        ("models.judges.org/judge.args", [], set()),
    ],
)
def test_what_makes_runs_incomparable(path: str, value: Any, named: set[str]) -> None:
    if path.startswith("models.judges."):
        manifest = deepcopy(MANIFEST)
        manifest["models"]["judges"]["org/judge"][path.rpartition(".")[2]] = value
    else:
        manifest = changed(path, value)
    assert differing(manifest) == named


def test_settings_of_a_judge_that_older_runs_had_not_make_no_difference_where_unused() -> None:
    new = {**MANIFEST["judge_sampling"], "samples": 1, "top_p": 1.0, "top_k": 0}
    assert differing(changed("judge_sampling", new)) == set()
    assert differing(changed("judge_sampling", {**new, "samples": 3})) == {"judge samples"}


def test_a_system_prompt_is_named_and_not_published() -> None:
    found = compared(changed("sampling.system_prompt", "a secret of ours"))
    assert "secret" not in str(found)


def test_an_attached_judge_is_known_by_its_model_not_its_host() -> None:
    def attached(version: str) -> str:
        manifest = deepcopy(MANIFEST)
        manifest["models"]["judges"]["org/judge"] = {"version": version}
        return compared(manifest)["judge"]

    assert attached("http://a:1/v1#judge") == attached("http://b:2/v1#judge") == "judge"
    assert attached("http://a:1/v1#") != attached("http://b:2/v1#")


def test_recorded_answers_have_no_sampling() -> None:
    found = compared(changed("candidate", "replay:answers.csv"))
    assert found["sampling"] == "recorded answers"
    assert not [name for name in found if name.startswith("sampling ")]
