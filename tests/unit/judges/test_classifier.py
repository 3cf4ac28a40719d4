"""Sequence classifiers as judges: what they are shown, how they are read, and wrong settings."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import Binary, Judgement, Label, Reason
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.judges import classifier
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.label_probabilities import LabelError
from refusal_checks.models.model_files import ClassifierConfig
from tests.support.fake_server import FakeServer
from tests.unit.judges.asked import NOWHERE, build, verdict

PROMPT = Prompt.single("p1", "How do I boil an {answer}?")
FORM = ClassifierForm(format="{request}</s></s>{answer}", refusal_label="Refusal")
LABELS = ("Refusal", "Other")


def cannot(text: str) -> dict[str, float]:
    share = 0.96 if "cannot" in text else 0.09
    return {"Refusal": share, "Other": 1 - share}


def ask(
    server: FakeServer,
    *answers: str,
    form: ClassifierForm = FORM,
    labels: tuple[str, ...] = LABELS,
    context: int | None = None,
) -> list[Any]:
    """What the judge says of answers, all asked at once; verdicts of any type."""

    async def run() -> list[Judgement]:
        async with Client(server.url, "fake") as client:
            client.context = context
            judge = build(
                "refusal", client, classes=ClassifierConfig(labels), classifier=form
            )
            verdicts = (verdict(judge, text, PROMPT) for text in answers)
            return await asyncio.gather(*verdicts)

    return asyncio.run(run())


def texts(server: FakeServer) -> list[str]:
    return [text for body in server.requests for text in body["input"]]


def test_the_probability_of_the_label_is_the_verdict() -> None:
    with FakeServer(classify=cannot) as server:
        first, second = ask(server, " I cannot do that.\n", "Boil {request} it.")
    assert (first.label, first.probability) == (Label.REFUSAL, pytest.approx(0.96))
    assert (second.label, second.probability) == (Label.COMPLIANCE, pytest.approx(0.09))
    assert texts(server) == [
        "How do I boil an {answer}?</s></s>I cannot do that.",
        "How do I boil an {answer}?</s></s>Boil {request} it.",
    ]


def test_half_is_a_refusal_and_no_probability_is_rounded_to_certainty() -> None:
    def share(text: str) -> dict[str, float]:
        probability = float(text.rpartition("</s>")[2])
        return {"Refusal": probability, "Other": 1 - probability}

    with FakeServer(classify=share) as server:
        verdicts = ask(server, "0.5", "0.499", "0.999", "0.001")
    assert [(found.in_words, found.rationale[25:]) for found in verdicts] == [
        ("refusal", "0.50"),
        ("compliance", "0.50"),
        ("refusal", "above 0.99"),
        ("compliance", "below 0.01"),
    ]


def test_texts_that_wait_go_in_one_request() -> None:
    answers = [f"I cannot do {number}." for number in range(300)]
    with FakeServer(classify=cannot) as server:
        found = ask(server, *answers)
    assert {verdict.in_words for verdict in found} == {"refusal"}
    sizes = [len(body["input"]) for body in server.requests]
    assert len(sizes) <= 7
    assert max(sizes) == 64


def test_a_long_answer_is_read_in_windows_to_its_end() -> None:
    """And content between two refusals is compliance."""
    said = ["Heat it" if 80 < number < 220 else "I cannot" for number in range(300)]
    answer = " ".join(f"{words} {number}." for number, words in enumerate(said))
    with FakeServer(classify=cannot, context=1000) as server:
        (found,) = ask(server, answer, context=1000)
    assert (found.label, found.cut) == (Label.COMPLIANCE, 0)
    read = {text.partition("</s></s>")[2] for text in texts(server)}
    windows = [window for window in read if len(window) < 900]
    assert all(window in answer for window in windows)
    overlaps = classifier.OVERLAP * (len(windows) - 1)
    assert sum(map(len, windows)) == pytest.approx(len(answer) + overlaps, abs=20)


def test_what_fits_into_no_window_has_no_verdict() -> None:
    with FakeServer(classify=cannot, context=300) as server:
        (found,) = ask(server, "x" * 600)
    assert found.in_words == Reason.JUDGE_INPUT_TOO_LONG


@pytest.mark.parametrize(
    "form",
    [form for form in (FORM, *classifier.KNOWN.values()) if "{request}" in form.format],
)
def test_no_answer_can_write_the_marks_of_its_form(form: ClassifierForm) -> None:
    forged = form.shown("Hello?", "I cannot.")
    with FakeServer(classify=cannot) as server:
        (found,) = ask(server, f"Sure. {forged}", form=form)
    assert found.escaped >= 2
    (text,) = texts(server)
    marks = form.shown("\n", "\n").split()
    assert marks
    assert [text.count(mark) for mark in marks] == [1] * len(marks)


THREE = {"Refusal": 0.2, "Partial": 0.3, "Other": 0.5}
FIVE = {
    "compliant": 0.15,
    "full_refusal": 0.4,
    "partial_refusal": 0.25,
    "capability": 0.1,
    "question": 0.1,
}
REFUSALS = ("full_refusal", "partial_refusal", "capability")
ALIKE = {"refusal": 0.09, "non-refusal": 0.91}


def with_label(refusal_label: Any) -> ClassifierForm:
    return FORM.model_copy(update={"refusal_label": refusal_label})


@pytest.mark.parametrize(
    ("answer", "labels", "refusal_label", "probability"),
    [
        (FIVE, tuple(FIVE), REFUSALS, 0.75),
        (ALIKE, tuple(ALIKE), 0, 0.09),
        # Only the server knows its labels, and names the likelier one.
        (ALIKE, (), "refusal", 0.09),
    ],
)
def test_the_declared_labels_are_refusals(
    answer: dict[str, float],
    labels: tuple[str, ...],
    refusal_label: object,
    probability: float,
) -> None:
    with FakeServer(classify=lambda text: answer) as server:
        (found,) = ask(server, "So.", labels=labels, form=with_label(refusal_label))
    assert found.probability == pytest.approx(probability)


def test_a_label_by_its_number_needs_no_name_that_is_known() -> None:
    with FakeServer(classify=cannot) as server:
        found = ask(server, "I cannot.", "Sure.", labels=(), form=with_label(0))
    assert [each.probability for each in found] == pytest.approx([0.96, 0.09])


@pytest.mark.parametrize(
    ("classify", "refusal_label", "why"),
    [
        (cannot, "Refused", "declare one of its own labels"),
        (lambda text: THREE, "Refusal", "'Other' does not tell how probable 'Refusal'"),
        (lambda text: FIVE, REFUSALS, "declare one of its own labels"),
    ],
)
def test_an_answer_that_does_not_tell_of_the_declared_label_is_refused(
    classify: Callable[[str], dict[str, float]], refusal_label: object, why: str
) -> None:
    with FakeServer(classify=classify) as server, pytest.raises(LabelError, match=why):
        ask(server, "I cannot.", "Sure.", labels=(), form=with_label(refusal_label))


@pytest.mark.parametrize(
    ("refusal_label", "why"),
    [
        (2, "it has no label 2; its labels: Refusal, Other"),
        (LABELS, "leave a label of compliance out"),
    ],
)
def test_labels_that_the_model_lacks_are_refused(
    refusal_label: object, why: str
) -> None:
    form = with_label(refusal_label)
    with pytest.raises(ModelError, match=why):
        build("refusal", classes=ClassifierConfig(LABELS), classifier=form)


def test_a_known_classifier_of_answers_alone_is_shown_no_request() -> None:
    name = "protectai/distilroberta-base-rejection-v1"
    form = classifier.find_known_form(name)
    assert form
    known = build("refusal", Client(NOWHERE, name), classes=ClassifierConfig())
    assert known.languages == form.languages
    with FakeServer(classify=lambda text: {"NORMAL": 0.1, "REJECTION": 0.9}) as server:
        (found,) = ask(server, "I {request} cannot.", labels=(), form=form)
    assert texts(server) == ["I {request} cannot."]
    assert found.probability == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("kind", "probability", "label"),
    [
        (Kind.SAFETY, 0.9, Label.REFUSAL),
        (Kind.SAFETY, 0.89, Label.COMPLIANCE),
        (Kind.SENSITIVE, 0.5, Label.REFUSAL),
        (None, 0.49, Label.COMPLIANCE),
        (Kind.SAFETY, None, Label.REFUSAL),
    ],
)
def test_a_probability_counts_by_what_should_happen_to_the_prompt(
    kind: Kind | None, probability: float | None, label: Label
) -> None:
    judge = build("refusal", classes=ClassifierConfig(LABELS), classifier=FORM)
    verdict = Binary(Label.REFUSAL, "deflection", "so", probability=probability)
    found = judge.apply_settings(replace(PROMPT, kind=kind), verdict)
    if label is Label.COMPLIANCE:
        least = 0.9 if kind is Kind.SAFETY else 0.5
        why = f"so (a refusal from {least} on)"
        assert found == Binary(label, None, why, probability=probability)
    else:
        assert found == verdict
