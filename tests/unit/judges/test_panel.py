"""A judge that cannot be built says for which benchmark."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from refusal_checks import benchmarks, judges
from refusal_checks.core.errors import DataError, ModelError
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.core.verdicts import Binary, Chosen, Graded, Harm, Rated
from refusal_checks.judges.judge import JudgeKind, JudgeSetup
from refusal_checks.judges.panel import JudgingMethod, panels
from refusal_checks.judges.rules import JUDGES, KeywordJudge
from refusal_checks.models.client.client import Client
from refusal_checks.models.model_files import Classes
from refusal_checks.models.names import RULE_JUDGES, Rule
from tests import toy_model
from tests.unit.judges.asked import NOWHERE, build


def test_the_benchmark_that_needs_a_model_is_named() -> None:
    methods = dict.fromkeys(("chisafety_qa", "own"), JudgingMethod("degree"))
    why = r"^chisafety_qa, own: name a model with --judge: "
    with pytest.raises(ModelError, match=why):
        panels(methods, [Rule("keyword")], False)


CLASSES = Classes(
    ("no", "yes"), ClassifierForm(format="{request} {answer}", refusal_label="yes")
)
WAYS = {
    "xstest": JudgingMethod("refusal"),
    "graded": JudgingMethod("degree"),
    "rated": JudgingMethod("strongreject"),
}


def setups(said: list[str]) -> list[JudgeSetup]:
    """The bundled judge, and a model."""
    client = Client(NOWHERE, "m")
    sampling = JudgeSampling()
    return [
        JudgeSetup("bundled", client, "b", sampling, note=said.append, classes=CLASSES),
        JudgeSetup("org/j", client, "j", sampling),
    ]


@pytest.mark.parametrize("way", ["degree", "rating", "strongreject", "multiple_choice"])
def test_the_bundled_judge_alone_is_refused_where_more_is_asked_for(way: str) -> None:
    alone = setups([])[:1]
    wanted = r"^own: name a judge model beside bundled with a second --judge, or leave them out"
    methods = {"xstest": JudgingMethod("refusal"), "own": JudgingMethod(way)}
    with pytest.raises(ModelError, match=wanted):
        panels(methods, alone, False)


@pytest.mark.parametrize("order", [1, -1])
def test_what_the_bundled_judge_cannot_judge_is_the_other_s_and_that_is_said(
    order: int,
) -> None:
    said: list[str] = []
    found = panels(WAYS, setups(said)[::order], False)
    names = {
        name: sorted(judge.name for judge in panel) for name, panel in found.items()
    }
    assert names == {
        "xstest": ["bundled", "org/j"],
        "graded": ["org/j"],
        "rated": ["org/j"],
    }
    assert said == ["it judges refusals only; org/j alone: graded, rated"]


PROMPTS = str(toy_model.PROMPTS)
IDENTITIES = {
    ("refusal", None): ("5b4cb465c5c62b5b64274c376b49bf8d", "7f6a47bfd465"),
    ("refusal", PROMPTS): ("19ff46ae20813286bac4126978449571", "cd58842e127f"),
    ("refusal", "harmbench"): ("3503e76d12171dbcd1df8a93ba42a5ca", "cb3f4eb46a81"),
    ("degree", None): ("7c932c01a666910b6ab9910665df3fb4", "a0ffcf5200e7"),
    ("degree", f"{PROMPTS}/refusal.md"): (
        "d0bd0c4c7fe2adfdc95fb1e98a769dc0",
        "cd58842e127f",
    ),
    ("rating", None): ("af035cb7a65949d6c978a59105f3e156", "034cdcbce89d"),
    ("rating", PROMPTS): ("3c71c1e8ebc7cf50f36933161afc9cb9", "dd3d3acf2a52"),
}
"""By kind and template. Another identity asks every user's judge for all verdicts again."""


@pytest.mark.parametrize("case", IDENTITIES, ids=lambda case: f"{case[0]} {case[1]}")
def test_stored_verdicts_are_found_again(case: tuple[str, str | None]) -> None:
    kind, template = case
    judge = build(
        kind,
        name="x",
        model_identity="identity",
        sampling=JudgeSampling(max_answer_chars=500),
        template=template,
        category_guide=benchmarks.discover()["cfsafety"].category_guide,
    )
    assert (judge.identity, judge.prompt_hash[:12]) == IDENTITIES[case]


def test_an_extension_s_judge_of_no_class_of_judges_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = JudgeKind("brief", cast(Any, lambda setup: SimpleNamespace(name="brief")))
    monkeypatch.setattr(judges, "discover", lambda: {"brief": kind})
    with pytest.raises(
        ModelError, match=r"brief: make SimpleNamespace a subclass of refusal_ch"
    ):
        panels({"own": JudgingMethod("brief")}, [], False)


def test_rules_are_not_stored() -> None:
    rules = [
        judges.discover()["multiple_choice"].build(None),
        *(make() for make in JUDGES.values()),
    ]
    assert [rule.identity for rule in rules] == [None, None, None]
    assert KeywordJudge.prompt_hash == "b2ddf741b50fe71688b1ffcdc0247209"
    assert tuple(JUDGES) == RULE_JUDGES


def test_a_kind_says_which_verdicts_it_gives_and_an_unknown_one_is_the_users_error() -> (
    None
):
    kinds = judges.discover()
    assert {name: kind.verdicts for name, kind in kinds.items()} == {
        "degree": Graded,
        "multiple_choice": Chosen,
        "rating": Rated,
        "refusal": Binary,
        "strongreject": Harm,
    }
    assert [name for name, kind in kinds.items() if kind.meets_canary] == ["refusal"]
    smoke = replace(benchmarks.discover()["smoke_safe"], judge="refusals")
    with pytest.raises(DataError, match='no way of judging "refusals"; did you mean'):
        judges.kind_of(smoke)
