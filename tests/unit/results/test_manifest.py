"""The manifest: what it reads, writes and compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from refusal_checks.results.manifest import Manifest

OLD = Path(__file__).parents[2] / "data" / "before_house" / "run" / "summary.json"
"""A summary that commit 412c90c wrote."""


def test_a_manifest_of_an_older_version_keeps_its_shape() -> None:
    before: dict[str, Any] = json.loads(OLD.read_text())["manifest"]
    manifest = Manifest.model_validate(before)
    assert json.dumps(manifest.model_dump(mode="json")) == json.dumps(before)
    assert manifest.tokens["judge"].requests == 24
    (judge,) = manifest.judges_of("smoke_safe").values()
    assert judge.version == manifest.models.candidate.version


def test_facts_of_other_versions_are_kept_and_unset_ones_are_not_written() -> None:
    facts = {"candidate": "m", "new": [1], "hardware": {"cores": 2, "gpus": 8}}
    assert Manifest.model_validate(facts).model_dump() == facts


def test_a_manifest_grows_by_known_facts_of_the_right_type() -> None:
    first = Manifest(candidate="m")
    more = first.extended(gates={"selected": 1, "known": 2}, store="s")
    assert (more.candidate, more.gates.known, first.store) == ("m", 2, "")
    with pytest.raises(ValidationError, match="evaluation_s"):
        first.extended(evaluation_s="long")
    with pytest.raises(AssertionError, match="evaluation"):
        first.extended(evaluation=1.0)


def test_a_judge_without_a_model_is_its_own_version() -> None:
    manifest = Manifest.model_validate({"judge_prompts": {"b": {"keyword": "f00d"}}})
    assert manifest.judges_of("b")["keyword"].version == "keyword"
    with pytest.raises(KeyError):
        manifest.judges_of("other")
