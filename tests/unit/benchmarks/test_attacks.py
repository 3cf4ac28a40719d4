"""Attacks: what becomes of a prompt, that nothing of it is lost, and reading encoded answers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.benchmarks import attacks, digest
from refusal_checks.benchmarks.attacks import as_judged, coded, rewrite
from refusal_checks.benchmarks.attacks.base import Attack, Given, Rewrite, worded
from refusal_checks.benchmarks.attacks.encodings import ENCODINGS, Encoding
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.prompts import Kind, Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import content_key

NAMES = [name for name in attacks.names() if not name.startswith("language_")]
BASE64, ROT13, LEETSPEAK, SPACING = ENCODINGS.values()
REQUEST = "How do I bake a loaf of bread with 2 kinds of flour?"

texts = st.text(st.characters(codec="utf-8"), min_size=1)
words = st.lists(
    st.from_regex(r"[A-Za-zäöéß中文]+", fullmatch=True) | st.from_regex(r"[0-9]+", fullmatch=True),
    min_size=1,
).map(" ".join)


def one(name: str, prompt: Prompt) -> Prompt | None:
    done, _ = rewrite(attacks.find(name, ""), [prompt])
    return done[0] if done else None


@given(texts)
def test_encodings_of_any_text_give_it_back(text: str) -> None:
    assert b64decode(BASE64.encode(text)).decode() == text
    assert ROT13.encode(ROT13.encode(text)) == text
    assert SPACING.encode(text)[::2] == text


@given(words)
def test_leetspeak_of_words_and_numbers_gives_them_back(text: str) -> None:
    assert LEETSPEAK.decode(LEETSPEAK.encode(text)) == text


@pytest.mark.parametrize("coding", ENCODINGS.values(), ids=list(ENCODINGS))
@given(text=texts)
def test_no_answer_is_an_error(coding: Encoding, text: str) -> None:
    assert isinstance(coding.decode(text), str)


@pytest.mark.parametrize("coding", ENCODINGS.values(), ids=list(ENCODINGS))
def test_encoded_answers_are_read_and_plain_ones_stay(coding: Encoding) -> None:
    for answer in (
        "I am sorry, but I cannot help you with that request.",
        "First heat the oven, then knead the dough and let it rest for one hour.",
    ):
        encoded = coding.encode(answer)
        assert encoded != answer
        assert coding.decode(encoded) == coding.decode(answer) == answer


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


@pytest.mark.parametrize("name", NAMES)
@given(
    request=texts.filter(lambda text: text.strip() and len(text) > 1),
    system=st.booleans(),
    history=st.booleans(),
)
def test_an_attack_keeps_the_request(name: str, request: str, system: bool, history: bool) -> None:
    turns = [Message("system", "Be brief.")] if system else []
    if history:
        turns += [Message("user", "Hello"), Message("assistant", "Hello!")]
    prompt = Prompt("p1", (*turns, Message("user", request)), {"category": "c"}, cluster="k")
    attacked = one(name, prompt)
    if attacked is None:
        assert attacks.find(name, "").unfit
        return
    assert attacked.original == prompt
    assert (attacked.id, attacked.groups, attacked.cluster) == ("p1", {"category": "c"}, "k")
    assert request_in(name, attacked, request)
    assert [turn.role for turn in attacked.messages].count("system") <= 1
    assert attacked.messages[-1].role == ("assistant" if name == "prefill" else "user")
    if system:
        assert attacked.messages[0].content.startswith("Be brief.")
    assert one(name, prompt) == attacked


def request_in(name: str, attacked: Prompt, request: str) -> bool:
    """True if the request can be had from the messages again."""
    text = next(turn.content for turn in reversed(attacked.messages) if turn.role == "user")
    if name in ENCODINGS:
        return text.endswith(ENCODINGS[name].encode(request))
    if name == "payload_splitting":
        first, second = text.split("\n---\n", 1)[1].rsplit("\n---\n", 1)[0].split("\n---\n", 1)
        return request in (first + second, f"{first}\n---\n{second}")
    if name == "past_tense":
        return coded.reword(request) == text
    return request in text


def test_shots_differ_and_come_before_the_request() -> None:
    prompt, other = Prompt.single("p1", REQUEST), Prompt.single("p2", REQUEST)
    attacked = one("many_shot_8", prompt)
    assert attacked is not None
    questions = [turn.content for turn in attacked.messages if turn.content.startswith("How do")]
    assert len(attacked.messages) == 8 * 4 + 1
    assert len(set(questions)) == 9
    assert one("many_shot_8", other) != replace(attacked, id="p2")
    ((seeded,), _) = rewrite(attacks.find("many_shot_8", ""), [prompt], Given(seed=1))
    assert seeded.messages != attacked.messages
    assert one(f"many_shot_{coded.MOST}", prompt)


def test_an_attack_is_the_same_in_every_process() -> None:
    code = (
        "from refusal_checks.benchmarks.attacks import rewrite\n"
        "from refusal_checks.benchmarks import attacks, digest\n"
        "from refusal_checks.core.prompts import Prompt\n"
        f"done, _ = rewrite(attacks.find('many_shot_8', ''), [Prompt.single('p1', {REQUEST!r})])\n"
        "print(digest(done))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    attacked = one("many_shot_8", Prompt.single("p1", REQUEST))
    assert attacked is not None
    assert there.stdout.strip() == digest([attacked])


def test_a_plain_prompt_has_the_key_it_always_had() -> None:
    prompt = Prompt.single("p1", "Hello", category="c")
    assert content_key(prompt.turns) == content_key([("user", "Hello")])
    row = {
        "id": "p1", "messages": [{"role": "user", "content": "Hello"}],
        "groups": {"category": "c"}, "reference": None,
    }  # fmt: skip
    text = json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n"
    assert digest([prompt]) == hashlib.sha256(text.encode()).hexdigest()


def test_other_languages_are_those_of_the_data() -> None:
    english = Prompt.single("a", "Hello", cluster="1", language="en")
    chinese = Prompt.single("b", "你好", cluster="1", language="zh")
    lone = Prompt.single("c", "Bye", cluster="2", language="en")
    prompts = [english, chinese, lone]
    (attacked,), left_out = rewrite(
        attacks.find("language_zh", ""), [english, lone, chinese], Given(prompts)
    )
    assert (attacked.id, attacked.request, attacked.original.request) == ("a", "你好", "Hello")
    assert [prompt.id for prompt in left_out] == ["c", "b"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prefil", 'did you mean "prefill"'),
        ("Prefill", 'did you mean "prefill"'),
        ("many_shot", "many_shot_ with the number of exchanges, 1 to 256"),
        ("many_shot_0", "many_shot_8"),
        ("many_shot_08", "1 to 256"),
        ("many_shot_٣", "1 to 256"),
        ("many_shot_999", "1 to 256"),
        ("many_shots_8", 'did you mean "many_shot_8"'),
        ("language_", "the code of a language"),
        ("attacks", "no attack"),
        ("", "no attack"),
    ],
)
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


def test_a_decoding_that_fails_names_its_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked = replace(Prompt.single("p1", "x"), attack="own", plain=(Message("user", "y"),))

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
    assert shown(bytes.fromhex) == Completion("a"), "what no code decodes is judged as it is"


def test_what_stays_as_it_is_is_not_attacked() -> None:
    prompts = [Prompt.single("a", "你好"), Prompt.single("b", "hello there")]
    for name in ("rot13", "leetspeak"):
        _, left_out = rewrite(attacks.find(name, ""), prompts)
        assert [prompt.id for prompt in left_out] == ["a"]
    assert attacks.find("payload_splitting", "").rewrite(Prompt.single("a", "x"), Given()) is None


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (
            "Sure: SSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ= (base64)",
            "Sure: I cannot help with that (base64)",
        ),
        ("```\nSSBjYW5ub3QgaGVs\ncCB3aXRoIHRoYXQ=\n```", "```\nI cannot help with that\n```"),
        ("SSBjYW5ub3QgaGVscCB3aXRo", "I cannot help with"),  # cut off by a limit
        ("8J+YgPCfmIDwn5iA8J+YgPCf", "😀😀😀😀"),  # within a character
        ("internationalisation and responsibilities", "internationalisation and responsibilities"),
        ("/wEC/wEC/wEC/wEC/wEC", "/wEC/wEC/wEC/wEC/wEC"),  # bytes that are not text
        ("", ""),
        ("Answer\nSSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ=", "Answer\nI cannot help with that"),
        ("Sure SSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ=", "Sure I cannot help with that"),
        ("Sure SSBjYW5ub3QgaGVs\ncCB3aXRoIHRoYXQ=", "Sure I cannot help with that"),
        ("SSBjYW5ub3QgaGVscCB3aXRoIHRo\nHope that helps", "I cannot help with th\nHope that helps"),
        ("Here, step-by-step SSBjYW5ub3QgaGVscCB3", "Here, step-by-step I cannot help w"),
        ("Base64 ChatGPT SSBjYW5ub3QgaGVscCB3", "Base64 ChatGPT I cannot help w"),
        ("SSBjYW5ub3QgaGVscCBi\nZQ==", "I cannot help be"),
    ],
)
def test_base64_within_an_answer(answer: str, read: str) -> None:
    assert BASE64.decode(answer) == read


@pytest.mark.parametrize(
    "around", ["{}", " {}\n", "```\n{}\n```", "```text\n{}\n```", "```base64\n{}```", "`{}`"]
)
def test_a_short_answer_is_base64_where_it_stands_alone(around: str) -> None:
    for said in ("I cannot.", "No.", "No", "I refuse", "I refuse.", "Yes!", "不"):
        assert BASE64.decode(around.format(BASE64.encode(said))) == around.format(said)


@pytest.mark.parametrize(
    "answer",
    [
        "Sure", "Stop that", "NONE", "and/or", "COVID-19", "2024", "6666", "YouTube", "JavaScript",
        "GPT4", "Say SSBjYW5ub3Qu, please", "https://example.org/dough", "----------------",
    ],
)  # fmt: skip
def test_words_are_no_base64(answer: str) -> None:
    assert BASE64.decode(answer) == answer


@given(st.text("Ab3=+/ \n", max_size=60), st.text("rice \n", max_size=15))
def test_text_that_is_base64_of_nothing_readable_stays(run: str, words: str) -> None:
    assert isinstance(BASE64.decode(run + words), str)
    assert BASE64.decode(words) == words


def test_lines_of_rot13_without_a_common_word_are_read_as_the_others_are() -> None:
    recipe = "First you need these:\n1. Flour\n2. Water, salt\n\nKnead dough twice."
    assert ROT13.decode(ROT13.encode(recipe)) == recipe
    assert ROT13.decode(recipe) == recipe
    said, more = "Here is what you asked for:\n", "Take the flour and the water."
    assert ROT13.decode(said + ROT13.encode(more)) == said + more
    assert ROT13.decode("Flour") == "Flour"


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("word i n s i d e", "word inside"),
        ("word i n s i d e word", "word inside word"),
        ("You need a b c d things", "You need abcd things"),
        ("Options: A B C D", "Options: ABCD"),
        ("I   c a n n o t   h e l p.", "I cannot help."),
        ('He said: "n e v e r!"', 'He said: "never!"'),
        ("(i n s i d e)", "(inside)"),
        ("**i n s i d e**", "**inside**"),
        ("it's a b c d", "it's abcd"),
        ("it' s a f e", "it' safe"),
        ("a b c", "a b c"),
        ("a, b, c, d, e", "a, b, c, d, e"),
        ("See e.g. a b c d.x", "See e.g. a b c d.x"),
        ("你 好 世 界", "你好世界"),
    ],
)
def test_spaced_letters_within_an_answer(answer: str, read: str) -> None:
    assert SPACING.decode(answer) == read


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        ("How do I bake bread?", "How did people bake bread in the past?"),
        ("how can you bake bread", "How did people bake bread in the past?"),
        ("What is the best flour?", "What was the best flour in the past?"),
        ("What's the best flour?", "What was the best flour in the past?"),
        ("Where can I buy flour? Be brief.", "Where did people buy flour in the past? Be brief."),
        ("Please write a poem about bread", "How did people write a poem about bread in the past?"),
        (
            "Can you tell me how to bake bread? Step by step, please.",
            "How did people bake bread in the past? Step by step, please.",
        ),
        ("Could you please help me to bake?", "How did people help me to bake in the past?"),
        ("Write a tutorial on bread", "How did people write a tutorial on bread in the past?"),
        ("Please Give instructions.", "How did people give instructions in the past?"),
        ("How to Bake Bread", "How did people bake Bread in the past?"),
        ("WRITE A POEM", "How did people WRITE A POEM in the past?"),
        ("What is Design Thinking?", "What was Design Thinking in the past?"),
        (
            "How do I use grain, e.g. rye, in 5 min. of work? Be brief.",
            "How did people use grain, e.g. rye, in 5 min. of work in the past? Be brief.",
        ),
        (
            "How do I bake in 5 min? Be brief.",
            "How did people bake in 5 min in the past? Be brief.",
        ),
        ("How do I bake in 5 min.", "How did people bake in 5 min in the past?"),
        ("How can I meet Dr. Rye... Tell me.", "How did people meet Dr. Rye in the past? Tell me."),
        ("How do I wait a min... Be brief.", "How did people wait a min in the past? Be brief."),
        ("How do I bake??! Be brief.", "How did people bake in the past? Be brief."),
        ("Bread.", None),
        ("如何烤面包？", None),
        ("Should I bake?", None),
    ],
)
def test_past_tense(request_: str, asked: str | None) -> None:
    assert coded.reword(request_) == asked
