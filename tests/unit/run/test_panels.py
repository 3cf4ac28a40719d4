"""A judge that cannot be built says for which benchmark."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from refusal_checks import benchmarks, judges
from refusal_checks.benchmarks import discover
from refusal_checks.core.errors import DataError, ModelError
from refusal_checks.core.judgements import Binary, Chosen, Graded, Rated
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.judges.judge import JudgeKind, JudgeSetup
from refusal_checks.judges.prompt_metadata import Criterion
from refusal_checks.judges.rules import KeywordJudge, LabelsJudge
from refusal_checks.models.client.client import Client
from refusal_checks.models.model_files import ClassifierConfig
from refusal_checks.models.model_names import RULE_JUDGES, Rule
from refusal_checks.run.panels import (
    JudgingMethod,
    choose_panels,
    judging_methods,
    known_exchanges,
)
from refusal_checks.trust.validation_sets import (
    OF_HARM,
    REFUSALS,
    ValidationSet,
    has_check,
)
from tests import toy_model
from tests.unit.judges.asked import NOWHERE, build


def test_the_benchmark_that_needs_a_model_is_named() -> None:
    methods = dict.fromkeys(("chisafety_qa", "own"), JudgingMethod("degree"))
    why = r"^chisafety_qa, own: name a model with --judge: "
    with pytest.raises(ModelError, match=why):
        choose_panels(methods, [Rule("keyword")], False)


CLASSES = ClassifierConfig(
    ("no", "yes"), ClassifierForm(format="{request} {answer}", refusal_label="yes")
)
WAYS = {
    "xstest": JudgingMethod("refusal"),
    "graded": JudgingMethod("degree"),
    "rated": JudgingMethod("rating"),
}


def setups() -> list[JudgeSetup]:
    """The demo judge, and a model."""
    client = Client(NOWHERE, "m")
    sampling = JudgeSampling()
    return [
        JudgeSetup("demo:judge", client, "b", sampling, classes=CLASSES),
        JudgeSetup("org/j", client, "j", sampling),
    ]


@pytest.mark.parametrize("way", ["degree", "rating", "multiple_choice"])
def test_the_demo_judge_alone_is_refused_where_more_is_asked_for(way: str) -> None:
    alone = setups()[:1]
    wanted = r"^own: name a judge model beside demo:judge with a second --judge, or leave them out"
    methods = {"xstest": JudgingMethod("refusal"), "own": JudgingMethod(way)}
    with pytest.raises(ModelError, match=wanted):
        choose_panels(methods, alone, False)


@pytest.mark.parametrize("order", [1, -1])
def test_what_the_demo_judge_cannot_judge_is_the_other_s(order: int) -> None:
    found = choose_panels(WAYS, setups()[::order], False)
    names = {
        name: sorted(judge.name for judge in panel) for name, panel in found.items()
    }
    assert names == {
        "xstest": ["demo:judge", "org/j"],
        "graded": ["org/j"],
        "rated": ["org/j"],
    }


@pytest.mark.parametrize("name", ["degree", "options", "moral"])
def test_a_judge_prompt_that_nothing_in_the_run_asks_for_is_refused(name: str) -> None:
    client = Client("http://127.0.0.1:1/v1", "j")
    setup = JudgeSetup("org/j", client, "j", JudgeSampling(), template=name)
    refusals = {"xstest": JudgingMethod("refusal")}
    with pytest.raises(
        ModelError, match=f"judge.prompt {name}: leave it out, or name a"
    ):
        choose_panels(refusals, [setup], False)
    (judge,) = choose_panels(refusals, [replace(setup, template="harmbench")], False)[
        "xstest"
    ]
    assert judge.criterion == "harm"


PROMPTS = str(toy_model.PROMPTS)
IDENTITIES = {
    ("refusal", None): ("0f0d6031fe307d24919305b68beb711c", "15d1eb36c895"),
    ("refusal", PROMPTS): ("c3aef4e0018d80d4daf114e8850eb754", "4cb02c7aba90"),
    ("refusal", "harmbench"): ("61a8e738cb84b6d809bcd187a2bb04c5", "3ab972abd0de"),
    ("degree", None): ("d200452d8a4dcc6432a286932cdb7aab", "dbf61aff55ff"),
    ("rating", None): ("2d276fc61d6998331bd376ae945dd072", "c2f2f18d5ae3"),
    ("rating", PROMPTS): ("c8c9fdb764c9e38bf541dee1af2a8c48", "a5030729edaa"),
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
        choose_panels({"own": JudgingMethod("brief")}, [], False)


def test_rules_are_not_stored() -> None:
    rules = [
        judges.discover()["multiple_choice"].build(None),
        KeywordJudge(),
        LabelsJudge(),
    ]
    assert [rule.identity for rule in rules] == [None, None, None]
    assert KeywordJudge.prompt_hash == "b2ddf741b50fe71688b1ffcdc0247209"
    assert (KeywordJudge.name, LabelsJudge.name) == RULE_JUDGES


def test_a_kind_says_which_verdicts_it_gives_and_an_unknown_one_is_the_users_error() -> (
    None
):
    kinds = judges.discover()
    assert {name: kind.judgement_type for name, kind in kinds.items()} == {
        "degree": Graded,
        "multiple_choice": Chosen,
        "rating": Rated,
        "refusal": Binary,
    }
    unchecked = [name for name, kind in kinds.items() if not has_check(kind)]
    assert unchecked == []
    smoke = replace(benchmarks.discover()["smoke_safe"], judge="refusals")
    with pytest.raises(DataError, match='no way of judging "refusals"; did you mean'):
        judges.kind_of(smoke)


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        (("refusal",), REFUSALS),
        (("refusal", "harm"), REFUSALS),
        (("harm", "harm"), OF_HARM),
    ],
)
def test_judges_of_harm_alone_are_checked_on_harm(
    measures: tuple[Criterion, ...], expected: ValidationSet
) -> None:
    judging = []
    for measure in measures:
        judge = KeywordJudge()
        judge.criterion = measure
        judging.append(judge)
    assert known_exchanges("", tuple(judging)) is expected
    assert known_exchanges("degree", (KeywordJudge(),)).measures == "degrees"


@pytest.mark.parametrize(
    ("usual", "own", "limit"),
    [
        (None, (None, None), None),
        (None, (None, 500), 500),
        (300, (None, 500), 300),
        (800, (900, 500), 500),
    ],
)
def test_a_check_is_cut_as_the_strictest_of_its_benchmarks(
    usual: int | None, own: tuple[int | None, int | None], limit: int | None
) -> None:
    known = discover()
    gated = {
        name: replace(known[name], max_answer_chars=chars)
        for name, chars in zip(("xstest_safe", "xstest_unsafe"), own, strict=True)
    }
    gated["chisafety_qa"] = replace(known["chisafety_qa"], max_answer_chars=100)
    methods = judging_methods(gated, gated, usual)
    assert methods["[judge]"].max_answer_chars == limit
    assert methods["xstest_unsafe"].max_answer_chars == (own[1] or usual)
    assert methods["[judge degree]"].max_answer_chars == 100
