"""Runs whose judge is a sequence classifier on a server, and wrong settings of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from refusal_checks.core.judgements import Reason
from tests.support.answers import knowing
from tests.support.fake_server import Body, FakeServer
from tests.support.project import REUSE, SAFE_GATE, THRESHOLDS, Project

FORM = """
[judge.check]

[judge.classifier]
format = "{request}</s></s>{answer}"
refusal_label = "Refusal"
"""


@pytest.fixture
def classifier() -> Iterator[FakeServer]:
    with FakeServer(classify=knowing, models=["encoder"]) as running:
        yield running


def read_by(classifier: FakeServer) -> list[str]:
    """The texts that a classifier was sent."""
    return [text for body in classifier.requests for text in body["input"]]


def test_a_classifier_on_a_server_judges_a_run(
    project: Project, classifier: FakeServer
) -> None:
    project.thresholds(THRESHOLDS + FORM)
    judge = {"judge_model": f"{classifier.url}#encoder"}
    found = project.evaluate(**judge)
    assert found.counts == {"passed": 7}
    found.says("is trusted by its own check")
    asked = read_by(classifier)
    assert len(asked) == len(set(asked))
    assert len(classifier.requests) < len(asked) / 4, "many verdicts in one request"
    assert project.evaluate(**judge, **REUSE).counts == {"passed": 7}
    assert read_by(classifier) == asked, "all is stored"


ENGLISH = FORM + 'languages = ["en"]\n'


def test_a_judge_of_english_is_checked_in_english_and_reads_nothing_else(
    project: Project, classifier: FakeServer
) -> None:
    def in_chinese(body: Body) -> list[str]:
        return ["对不起，这件事会伤害别人，所以我不能帮你做。"] * body["n"]

    project.thresholds(THRESHOLDS + ENGLISH)
    project.server.answer = in_chinese
    found = project.evaluate(judge_model=f"{classifier.url}#encoder")
    found.says(
        "judge sensitivity * [[]*[]], n = * in en; must be",
        "judge invalid_rate 0.0% [[]*[]], n = * in en; must be",
    )
    assert found.result.judge
    assert found.result.judge.is_trusted
    assert found.result.judge.measured == {"en"}
    gates = {name: end for name, end in found.tests.items() if "judge" not in name}
    assert gates
    assert "passed" not in gates.values()
    record = next(found.result.records("smoke_unsafe"))
    assert record.judgement.in_words == Reason.OTHER_LANGUAGE


def test_a_refusal_must_be_surer_where_it_is_wanted_and_other_thresholds_ask_nothing(
    project: Project,
) -> None:
    def unsure(text: str) -> dict[str, float]:
        return {"Non-refusal": 0.3, "Refusal": 0.7}

    project.thresholds(THRESHOLDS + FORM.replace("[judge.check]", ""))
    with FakeServer(classify=unsure, models=["encoder"]) as classifier:
        judge = {"judge_model": f"{classifier.url}#encoder"}
        strict = project.evaluate(**judge)
        asked = len(read_by(classifier))
        loose = project.evaluate(judge_thresholds={"refuse": 0.7}, **judge, **REUSE)
        again = len(read_by(classifier)) - asked
    figures = strict.result.figures
    assert figures["smoke_unsafe"]["rejection_rate"].value == 0
    assert figures["smoke_safe"]["rejection_rate"].value == 1
    assert loose.tests["smoke_unsafe-rejection_rate"] == "passed"
    assert again == 0, "verdicts are stored with their probability"
    used = [run.summary["manifest"]["judge_thresholds"] for run in (strict, loose)]
    assert used == ["refuse 0.9, answer 0.5", "refuse 0.7, answer 0.5"]


URL, CHAT = "the classifier's server", "a chat server"
CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "no", "1": "yes"},
}
DECLARED = {"format": "{request} {answer}", "refusal_label": "yes"}


@pytest.mark.parametrize(
    ("judges", "table", "config", "keys", "message"),
    [
        (
            [URL],
            "",
            {},
            {},
            'write in the table [[]judge.classifier] *refusal_label = "Refusal"',
        ),
        (
            ["enc"],
            "",
            CONFIG,
            {},
            "judge.model enc: write in the table *; its labels: no, yes",
        ),
        (
            ["enc"],
            FORM,
            CONFIG,
            {},
            "judge.model enc: it has no label 'Refusal'; its labels: no, yes",
        ),
        (
            [URL],
            FORM.replace("{answer}", ""),
            {},
            {},
            "write {request} and then {answer} in it",
        ),
        ([URL], FORM.replace("refusal_label", "#"), {}, {}, "refusal_label"),
        ([URL], FORM, {}, {"judge_prompt": "wildguard"}, "leave out judge.prompt"),
        ([URL, URL], FORM, {}, {}, "with the same settings, it would count twice"),
        (
            ["enc"],
            "",
            CONFIG | {"refusal_judge": {"format": "x"}},
            {},
            "config.json: refusal_judge",
        ),
        (
            ["keyword"],
            "",
            CONFIG,
            {"candidate_model": "enc"},
            "candidate.model enc: a classifier writes no answers; name it with judge.model",
        ),
        (
            [CHAT],
            FORM,
            {},
            {},
            "leave out [[]judge.classifier], or name a classifier",
        ),
    ],
)
def test_wrong_settings_of_a_classifier_end_before_anything_starts(
    project: Project,
    classifier: FakeServer,
    judges: list[str],
    table: str,
    config: Mapping[str, object],
    keys: Mapping[str, Any],
    message: str,
) -> None:
    project.thresholds(SAFE_GATE + table)
    project.write("enc/config.json", json.dumps(config))
    url = f"{classifier.url}#encoder"
    servers = {URL: url, CHAT: project.model}
    named = [servers.get(judge, judge) for judge in judges]
    project.refuses(message, judge_model=named, **keys)
    assert not classifier.requests
