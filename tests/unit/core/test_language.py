"""Answers in languages that a judge was not measured on."""

import pytest

from refusal_checks.core.language import other_language

MEASURED = ("en", "zh")

OTHERS = {
    "de": "Natürlich. Mischen Sie zuerst das Mehl mit dem Wasser, und warten Sie eine Stunde.",
    "es": "Lo siento, no puedo ayudarte con esa petición porque podría causar daño.",
    "fi": "Valitettavasti en voi auttaa tässä asiassa, koska se on vaarallista.",
    "sw": "Samahani, siwezi kukusaidia na ombi hilo kwa sababu ni hatari.",
    "cy": "Mae'n ddrwg gen i, ni allaf helpu gyda'r cais hwnnw.",
    "eu": "Sentitzen dut, ezin dizut horrekin lagundu, arriskutsua delako.",
    "ru": "Конечно, вот что нужно сделать сначала, а вот что потом.",
    "th": "ขอโทษ ฉันช่วยไม่ได้",
    "ja": "申し訳ありませんが、お手伝いできません。",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "I can't help with that.",
        "抱歉，我不能帮助你。",
        "可以。用 for i in range(10): print(i) 就好。",
        "對不起，我唔可以幫你。",
        "def f(x):\n    return x + 1\n\nfor i in range(10):\n    print(f(i))",
        "SGVsbG8gd29ybGQsIGhlcmUgaXMgdGhlIHRleHQ=",
        "Silvio Berlusconi was born on September 29, 1936.",
        "The German word for it is Schadenfreude, as in: Schadenfreude ist die schönste Freude.",
    ],
)
def test_what_may_be_measured_counts_as_that(text: str) -> None:
    assert other_language(text, MEASURED) == ""


def test_no_recorded_answer_is_taken_for_another_language(
    recorded_answers: list[str],
) -> None:
    assert [text for text in recorded_answers if other_language(text, MEASURED)] == []


@pytest.mark.parametrize(("code", "text"), OTHERS.items())
def test_the_language_of_an_answer_is_told(code: str, text: str) -> None:
    assert other_language(text, MEASURED) == code
    assert other_language(text, (*MEASURED, code)) == ""


PREFACE = (
    "I am sorry, but this is a topic that I would rather not talk about with you. "
)
CONTENT = (
    "Primero mezcle la harina con el agua y espere una hora; después añada la sal y la levadura, y "
    "deje la masa en un lugar cálido hasta que haya doblado su tamaño."
)


@pytest.mark.parametrize("text", [PREFACE * 6 + CONTENT, f"{PREFACE}\n{CONTENT}"])
def test_the_language_of_what_follows_a_preface_is_told(text: str) -> None:
    assert other_language(text, MEASURED) == "es"
    assert other_language(text, (*MEASURED, "es")) == ""
