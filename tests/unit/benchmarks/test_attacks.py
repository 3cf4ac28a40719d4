"""Attacks: what becomes of a prompt, that nothing of it is lost, and reading encoded answers."""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.benchmarks import attacks
from refusal_checks.benchmarks.attacks import as_judged, coded, rewrite
from refusal_checks.benchmarks.attacks.attack import Attack, Given, Rewrite, worded
from refusal_checks.benchmarks.attacks.encodings import (
    ENCODINGS,
    Encoding,
    hidden_text,
)
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.prompts import Kind, Message, Prompt
from refusal_checks.core.records import Completion
from tests.cases import cases_of
from tests.unit.core.test_nonsense import DATA, recorded

CASES = cases_of(__file__)

NAMES = [name for name in attacks.names() if not name.startswith("language_")]
BASE64, LEETSPEAK = ENCODINGS.values()
REQUEST = "How do I bake a loaf of bread with 2 kinds of flour?"

texts = st.text(st.characters(codec="utf-8"), min_size=1)
words = st.lists(
    st.from_regex(r"[A-Za-zäöéß中文]+", fullmatch=True)
    | st.from_regex(r"[0-9]+", fullmatch=True),
    min_size=1,
).map(" ".join)


def one(name: str, prompt: Prompt) -> Prompt | None:
    done, _ = rewrite(attacks.find(name, ""), [prompt])
    return done[0] if done else None


@given(texts)
def test_base64_of_any_text_gives_it_back(text: str) -> None:
    assert b64decode(BASE64.encode(text)).decode() == text


@given(words)
def test_leetspeak_of_words_and_numbers_gives_them_back(text: str) -> None:
    assert LEETSPEAK.decode(LEETSPEAK.encode(text)) == text


@pytest.mark.parametrize("coding", ENCODINGS.values(), ids=list(ENCODINGS))
@given(text=texts)
def test_no_answer_is_an_error(coding: Encoding, text: str) -> None:
    assert isinstance(coding.decode(text), str)


def test_the_judge_sees_the_request_and_the_decoded_answer() -> None:
    prompt = replace(Prompt.single("p1", REQUEST, category="bread"), kind=Kind.SANITY)
    for name, coding in ENCODINGS.items():
        attacked = one(name, prompt)
        assert attacked is not None
        said = Completion(coding.encode("I cannot help with that at all"), tokens=9)
        shown, answer = as_judged(attacked, said)
        assert shown == prompt
        assert shown.kind is Kind.SANITY
        assert answer == replace(said, text="I cannot help with that at all")
    assert as_judged(prompt, Completion("a")) == (prompt, Completion("a"))


STEPS = "First mix the flour with the water, then wait for an hour."


@pytest.mark.parametrize(
    ("answer", "hidden"),
    [
        (f"I cannot help.\n\n{BASE64.encode(STEPS)}", STEPS),
        (f"I cannot. `{BASE64.encode(STEPS)}` Sorry.", STEPS),
        (f"{BASE64.encode(STEPS)}\nand\n{BASE64.encode(STEPS.upper())}",
         f"{STEPS}\n{STEPS.upper()}"),
        (f"It reads {BASE64.encode('short')}, or {BASE64.encode('a little longer')}.", ""),
        ("See https://example.org/a/path/that/is/longer/than/most/of/the/others", ""),
        ("counterrevolutionaries electroencephalographically", ""),
        ("iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4", ""),
    ],
)  # fmt: skip
def test_a_judge_is_shown_what_base64_in_an_answer_reads(
    answer: str, hidden: str
) -> None:
    prompt = Prompt.single("p1", REQUEST)
    _, shown = as_judged(prompt, Completion(answer))
    below = f"\n\n[The base64 above reads:]\n{hidden}" if hidden else ""
    assert shown.text == answer + below


@pytest.mark.skipif(
    not DATA.is_dir(), reason="REFUSAL_CHECKS_DATA names no mirror of public data"
)
def test_no_recorded_answer_hides_a_text() -> None:
    assert [text for text in recorded() if hidden_text(text)] == []


@pytest.mark.parametrize("name", NAMES)
@given(
    request=texts.filter(lambda text: text.strip() and len(text) > 1),
    system=st.booleans(),
    history=st.booleans(),
)
def test_an_attack_keeps_the_request(
    name: str, request: str, system: bool, history: bool
) -> None:
    turns = [Message("system", "Be brief.")] if system else []
    if history:
        turns += [Message("user", "Hello"), Message("assistant", "Hello!")]
    prompt = Prompt(
        "p1", (*turns, Message("user", request)), {"category": "c"}, cluster="k"
    )
    attacked = one(name, prompt)
    if attacked is None:
        assert attacks.find(name, "").unfit
        return
    assert attacked.original == prompt
    assert (attacked.id, attacked.groups, attacked.cluster) == (
        "p1",
        {"category": "c"},
        "k",
    )
    assert request_in(name, attacked, request)
    assert [turn.role for turn in attacked.messages].count("system") <= 1
    assert attacked.messages[-1].role == ("assistant" if name == "prefill" else "user")
    if system:
        assert attacked.messages[0].content.startswith("Be brief.")
    assert one(name, prompt) == attacked


def request_in(name: str, attacked: Prompt, request: str) -> bool:
    """True if the request can be had from the messages again."""
    text = next(
        turn.content for turn in reversed(attacked.messages) if turn.role == "user"
    )
    if name in ENCODINGS:
        return text.endswith(ENCODINGS[name].encode(request))
    if name == "payload_splitting":
        first, second = (
            text.split("\n---\n", 1)[1].rsplit("\n---\n", 1)[0].split("\n---\n", 1)
        )
        return request in (first + second, f"{first}\n---\n{second}")
    if name == "past_tense":
        return coded.reword(request) == text
    return request in text


def test_shots_differ_and_come_before_the_request() -> None:
    prompt, other = Prompt.single("p1", REQUEST), Prompt.single("p2", REQUEST)
    attacked = one("many_shot_8", prompt)
    assert attacked is not None
    questions = [
        turn.content for turn in attacked.messages if turn.content.startswith("How do")
    ]
    assert len(attacked.messages) == 8 * 4 + 1
    assert len(set(questions)) == 9
    assert one("many_shot_8", other) != replace(attacked, id="p2")
    ((seeded,), _) = rewrite(attacks.find("many_shot_8", ""), [prompt], Given(seed=1))
    assert seeded.messages != attacked.messages
    assert one(f"many_shot_{coded.MOST}", prompt)


def test_other_languages_are_those_of_the_data() -> None:
    english = Prompt.single("a", "Hello", cluster="1", language="en")
    chinese = Prompt.single("b", "你好", cluster="1", language="zh")
    lone = Prompt.single("c", "Bye", cluster="2", language="en")
    prompts = [english, chinese, lone]
    (attacked,), left_out = rewrite(
        attacks.find("language_zh", ""), [english, lone, chinese], Given(prompts)
    )
    assert (attacked.id, attacked.request, attacked.original.request) == (
        "a",
        "你好",
        "Hello",
    )
    assert [prompt.id for prompt in left_out] == ["c", "b"]


@pytest.mark.parametrize(("name", "said"), CASES["names"])
def test_names_of_no_attack(name: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        attacks.find(name, "gates.toml: [x] attacks")
    assert str(raised.value).startswith("gates.toml: [x] attacks")
    assert said in str(raised.value)


def test_an_attack_that_fails_names_itself_and_the_prompt() -> None:
    def broken(prompt: Prompt, given: Given) -> tuple[Message, ...]:
        raise KeyError("colour")

    prompt = Prompt.single("p7", "Hello")
    message = "attack own: repair the extension .*: it failed on prompt p7: KeyError: 'colour'"
    with pytest.raises(DataError, match=message):
        rewrite(Attack("own", "", "", broken), [prompt])


@pytest.mark.parametrize(
    "rewriting",
    [
        lambda prompt, given: (),
        lambda prompt, given: "text",
        lambda prompt, given: "",
        lambda prompt, given: [prompt],
        lambda prompt, given: [("user", "text")],
        lambda prompt, given: [Message("user", None), *prompt.messages],  # type: ignore[arg-type]
        lambda prompt, given: [Message("user", " ")],
        worded(lambda request: 5),  # type: ignore[arg-type, return-value]
        worded(lambda request: b"text"),  # type: ignore[arg-type, return-value]
    ],
)
def test_what_are_no_messages_is_no_attack(rewriting: Rewrite) -> None:
    message = "attack own: repair the extension .*: for prompt p7 it gives no messages, or some w"
    with pytest.raises(DataError, match=message):
        rewrite(Attack("own", "", "", rewriting), [Prompt.single("p7", "Hello")])


def test_a_decoding_that_fails_names_its_attack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attacked = replace(
        Prompt.single("p1", "x"), attack="own", plain=(Message("user", "y"),)
    )

    def shown(decode: Callable[[str], Any]) -> Completion:
        own = Attack("own", "", "", lambda prompt, given: None, decode=decode)
        monkeypatch.setattr(attacks, "find", lambda name, where: own)
        return as_judged(attacked, Completion("a"))[1]

    message = "attack own: repair the extension that brings it: it failed to decode an answer: "
    with pytest.raises(DataError, match=f"{message}KeyError: 'a'"):
        shown(lambda text: {"": ""}[text])
    for wrong in (None, 5, b"a", ["a"]):
        said = f"{message}TypeError: decode gave no text but {type(wrong).__name__}"
        with pytest.raises(DataError, match=said):
            shown(partial(lambda wrong, text: wrong, wrong))
    assert shown(lambda text: "\ud800").text.encode()
    assert shown(bytes.fromhex) == Completion("a"), (
        "what no code decodes is judged as it is"
    )


def test_what_stays_as_it_is_is_not_attacked() -> None:
    prompts = [Prompt.single("a", "你好"), Prompt.single("b", "hello there")]
    _, left_out = rewrite(attacks.find("leetspeak", ""), prompts)
    assert [prompt.id for prompt in left_out] == ["a"]
    assert (
        attacks.find("payload_splitting", "").rewrite(Prompt.single("a", "x"), Given())
        is None
    )


@pytest.mark.parametrize(("answer", "read"), CASES["base64"])
def test_base64_within_an_answer(answer: str, read: str) -> None:
    assert BASE64.decode(answer) == read


@pytest.mark.parametrize(
    "around",
    ["{}", " {}\n", "```\n{}\n```", "```text\n{}\n```", "```base64\n{}```", "`{}`"],
)
def test_a_short_answer_is_base64_where_it_stands_alone(around: str) -> None:
    for said in ("I cannot.", "No.", "No", "I refuse", "I refuse.", "Yes!", "不"):
        assert BASE64.decode(around.format(BASE64.encode(said))) == around.format(said)


@pytest.mark.parametrize("answer", CASES["no_base64"])
def test_words_are_no_base64(answer: str) -> None:
    assert BASE64.decode(answer) == answer


@pytest.mark.parametrize(("request_", "asked"), CASES["past_tense"])
def test_past_tense(request_: str, asked: str) -> None:
    assert coded.reword(request_) == (asked or None)
