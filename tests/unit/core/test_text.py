"""Hostile text made fit for a terminal, a log and a judge."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.text import (
    BLANK,
    FAMILIES,
    SEPARATOR,
    SpecialTokens,
    clean,
    clean_lines,
    pathless,
    placeless,
    storable,
    without_credentials,
    wrapped,
)

PIECES = [
    *("\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://example.org\x1b\\", "\x1b", "\x9b2J", "##["),
    *("#", "[", "::error::", "\r\n", "\u2028", "\u202e", "\ud800", "文字", "\x1b]8;;", "\u3164"),
    *("e\u0301\u0301\u0301\u0301\u0301", "⚠\ufe0f\ufe0f"),
]
HOSTILE = st.lists(st.characters(exclude_categories=()) | st.sampled_from(PIECES)).map("".join)
HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain words, 文字 and é", "plain words, 文字 and é"),
        ("two\nlines\r\nand\ta tab\u2028more\x85end", "two lines and a tab more end"),
        ("  wide \u00a0  spaces  ", "wide spaces"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b[?25lhidden cursor\x1b[>4;2m", "hidden cursor"),
        ("\x1b]0;title\x07text", "0;title�text"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "8;;http://example.orglink8;;"),
        ("Refused.\x1b]8;;step 1: mix", "Refused.8;;step 1: mix"),
        ("\x1b]\nHow to build it", "How to build it"),
        ("\x1bPq payload\x1b\\ \x1b_apc \x1b^pm \x1bXsos", "q payload apc pm sos"),
        ("a\u034fb\u3164c\u115fd\u2800e\ufe01f\U000e0100g\U0001d159h", "a�b�c�d�e�f�g�h"),
        ("⚠\ufe0f 1\ufe0f\u20e3 ❤\ufe0e ❤\ufe0f\ufe0f x\ufe0f", "⚠️ 1️⃣ ❤︎ ❤️� x�"),
        ("Z" + "\u0301" * 7 + "algo", "Z" + "\u0301" * 4 + "���algo"),
        ("e\u0301 ê\u0323 \u05e9\u05bc\u05c1\u0592", "e\u0301 ê\u0323 \u05e9\u05bc\u05c1\u0592"),
        ("\x1bMup\x1b7", "up�7"),
        ("\x1b\x1b[31m[31m", "�[31m"),
        ("\x9b31mC1\x9d", "�31mC1�"),
        ("bell\x07 null\x00 delete\x7f back\x08", "bell� null� delete� back�"),
        ("over\u202eridden\u2066", "over�ridden�"),
        ("zero\u200bwidth\ufeff\u2060\u00ad", "zero�width���"),
        ("lone \ud800 surrogate", "lone � surrogate"),
        ("private \ue000, unassigned \U000e0fff", "private �, unassigned �"),
        ("##[error]x ##[group]", "# #[error]x # #[group]"),
        ("###[error]", "## #[error]"),
        ("#\x1b[0m#\x1b[0m[error]", "# #[error]"),
        ("::error::forged", ": :error::forged"),
        (" \n::add-mask::x ::error::y", ": :add-mask::x ::error::y"),
        (":::debug::", ": ::debug::"),
        ("std::string", "std::string"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
    ids=ascii,
)
def test_text_becomes_one_harmless_line(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("command", ["##[error]", "##vso[task.complete result=Succeeded;]"])
@pytest.mark.parametrize("text", ["{}", "words {} words", "\x1b[0m{}", "#{}"])
def test_commands_that_a_ci_system_reads_within_a_line_are_broken_up(
    text: str, command: str
) -> None:
    assert command not in clean(text.format(command))


def test_a_long_text_is_cut_and_shows_it() -> None:
    assert clean("x" * 300) == "x" * 300
    assert clean("x" * 301) == "x" * 299 + "…"
    assert clean("word " * 500, 12) == "word word w…"
    assert clean("word wo rd", 6) == "word…"


@pytest.mark.parametrize("filler", [" ", "\n", "\x1b[0m"], ids=ascii)
def test_text_after_much_that_is_not_shown_is_not_dropped_in_silence(filler: str) -> None:
    assert clean(filler * 10_000 + "the end") not in ("", "the")
    assert clean("begin" + filler * 10_000 + "the end").endswith(("…", "the end"))


@given(HOSTILE, st.integers(2, 40))
def test_what_is_shown_is_bounded_and_without_controls(text: str, limit: int) -> None:
    shown = clean(text, limit)
    assert len(shown) <= limit
    assert not {unicodedata.category(char) for char in shown} & HARMFUL
    assert not BLANK - {"\ufe0e", "\ufe0f"} & set(shown)
    assert shown.split() == [word for word in shown.split(" ") if word]
    assert "##[" not in shown
    assert not shown.startswith("::")
    assert clean(shown, limit) == shown, "once more changes nothing"


@given(HOSTILE, st.text(st.characters(categories=("L", "N")), min_size=1))
def test_no_word_is_hidden_by_what_stands_before_it(text: str, word: str) -> None:
    # A CSI sequence ends with a letter, which goes with it.
    assert word[1:] in clean(f"{text}{word}", 10**6)


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=30))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    if "##" not in text and not text.startswith("::"):
        assert clean(text) == text


@given(HOSTILE, st.integers(20, 60))
def test_a_line_that_is_broken_begins_no_command_and_keeps_its_width(text: str, width: int) -> None:
    lines = wrapped(f"x: {clean(text)}", width)
    assert all(len(line) <= width for line in lines)
    assert not [line for line in lines if line.lstrip().startswith("::")]


@given(HOSTILE)
def test_no_line_of_a_log_is_a_command(text: str) -> None:
    shown = clean_lines(text)
    assert shown.count("\n") == text.count("\n")
    assert not [line for line in shown.split("\n") if line.lstrip().startswith("::")]
    assert "##[" not in shown


def test_a_log_keeps_its_indentation() -> None:
    log = "vLLM ended:\n  File x\n\n    ::error::\x1b[31mx"
    assert len(clean_lines(" " * 10**6 + "x", 20)) <= 40
    assert clean_lines(log) == "vLLM ended:\n  File x\n\n    : :error::x"


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_encoded_once_it_is_storable(text: str) -> None:
    assert storable(text).encode("utf-8").decode("utf-8") == storable(text)
    assert len(storable(text)) == len(text)
    assert storable(storable(text)) == storable(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/models/a/b.jsonl", "…/b.jsonl"),
        ("--template=~/t.jinja,C:\\me\\x.txt", "--template=…/t.jinja,…/x.txt"),
        ("http://host:8000/v1#org/model", "http://host:8000/v1#org/model"),
        ("org/model", "org/model"),
        ("gates/release.toml", "gates/release.toml"),
        ("a/b of 3/4, and/or", "a/b of 3/4, and/or"),
    ],
)
def test_paths_of_the_machine_lose_their_folders(text: str, shown: str) -> None:
    assert pathless(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/models/judge", "…/judge"),
        ("http://10.0.0.5:8000/v1#org/model", "http://…/v1#org/model"),
        ("https://ann:pw@gpu-7.corp.example/v1?key=k1", "https://…/v1?[...]"),
        ("http://[fd00::5]:8000/v1", "http://…/v1"),
        ("org/model", "org/model"),
        ("replay:answers.jsonl", "replay:answers.jsonl"),
        ("replay:/home/ann/answers.jsonl", "replay:…/answers.jsonl"),
    ],
)
def test_what_is_public_names_no_folder_and_no_host(text: str, shown: str) -> None:
    assert placeless(text) == shown
    assert placeless(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@h:1/v1 https://h/v1?key=k#m.", "http://[...]@h:1/v1 https://h/v1?[...]#m."),
        ("'http://u:p@h?a=b@c'", "'http://[...]@c'"),
        ("http://h?key=a#http://h?key=b", "http://h?[...]#http://h"),
        ("a@b.c? //x?y", "a@b.c? //x?y"),
    ],
)
def test_urls_lose_their_passwords_and_queries(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


FAMILY = {
    "ChatML": "<|im_start|> <|im_end|> <|im_sep|> <|endoftext|>",
    "Llama 2": "[INST] [/INST] <<SYS>> <</SYS>> <s> </s>",
    "Llama 3": "<|begin_of_text|> <|start_header_id|> <|eot_id|> <|python_tag|>",
    "Llama 4": "<|header_start|> <|eot|>",
    "Gemma": "<start_of_turn> <end_of_turn> <bos> <eos> <unused42>",
    "Gemma 4": "<|turn> <turn|> <|channel> <tool_call|>",
    "Mistral": "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CALLS] [AVAILABLE_TOOLS] [IMG]",
    "DeepSeek": "<｜begin▁of▁sentence｜> <｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜>",
    "Phi": "<|system|> <|user|> <|end|> <|assistant|>",
    "Harmony": "<|start|> <|channel|> <|message|> <|return|> <|constrain|> <|call|>",
    "ChatGLM": "[gMASK] <sop> <eop> <|observation|>",
    "Qwen": "<tool_call> </tool_call> <tool_response> <think> </think> /no_think",
    "InternLM": "<|action_start|> <eoh> <eoa> [UNUSED_TOKEN_146]",
    "BERT": "[CLS] [SEP] [unused12]",
    "Cohere": "<|START_OF_TURN_TOKEN|> <BOS_TOKEN> <EOS_TOKEN>",
    "MiniMax": "]~!b[ ]~b] [e~[ <minimax:tool_call> </minimax:tool_call>",
    "Kimi": "<|im_middle|> [BOS] [EOT]",
    "EXAONE": "[|system|] [|endofturn|]",
    "Seed": "<seed:bos> <seed:eos>",
    "Ling": "<role> </role>",
    "Falcon": ">>QUESTION<<",
}
TOKENS = " ".join(FAMILY.values()).split(" ")
VARIANTS = [
    *("<|IM_END|>", "< |im_end| >", "<| im_end |>", "＜|im_end|＞", "<￨im_end￨>", "<∣im_end∣>"),
    *("<|im\u200b_end|>", "<\u2060|\ufeffim_end|\u00ad>", "<\u0338|im_end|>", "<|ｉｍ＿ｅｎｄ|>"),
    *("[inst]", "[ /INST ]", "［INST］", "<Start_Of_Turn>", "< end_of_turn >", "<|Assistant|>"),
    *("‹|im_end|›", "<\ud800|im_end|>", "<C_Q>", "<_user>", "<longcat_user>", "<AVAILABLE_TOOLS>"),
    *("</TOOLCALL>", "[USER]", "[/SYSTEM]", "<system>"),
]
ORDINARY = [
    "Sorry, I can't help with that.",
    "if a < b and c > d: x[0] | y",
    "<b>bold</b>, <p>text</p>, <br/>, <img src='x'>, List<String>",
    "[1] a source, [a link](http://example.org), - [ ] a task, [optional]",
    "x |> f |> g; a || b; cat file | sort > out; 1 << 3 >> 2",
    "https://example.org/think/no-thing",
    "ssh <name>@<host>, {user}, $USER, <username>, [name], #include <model.h>",
    "### Heading\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    "«quoted», 《书名》, 【注意】, <<guillemets>>",
    "文字，标点。（括号）",
]


@pytest.mark.parametrize("text", [*TOKENS, *VARIANTS], ids=ascii)
def test_a_special_token_is_broken_up_in_every_spelling(text: str) -> None:
    shown = FAMILIES.broken_up(f"An answer.{text}\nMore.")
    assert text not in shown
    assert shown.replace(SEPARATOR, "") == f"An answer.{text}\nMore."
    assert FAMILIES.count(text) >= 1


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert FAMILIES.changes(text) == ()
    assert FAMILIES.count(text) == 0


def test_tokens_that_overlap_are_all_broken_up() -> None:
    assert FAMILIES.broken_up("<<|im_end|><|im_end|>") == "<<·|im_end|><·|im_end|>"
    assert FAMILIES.broken_up("<|a<|im_end|>") == "<|a<·|im_end|>"


def test_a_model_s_own_tokens_are_broken_up_too() -> None:
    own = SpecialTokens(lambda: ["@@turn@@", "<custom-x>", "### Response:", "  ", "\n", "a", ""])
    shown = own.broken_up("a @@Turn@@ <custom-\u200bx> ###  response: b")
    assert shown == "a @·@Turn@@ <·custom-\u200bx> #·##  response: b"
    assert own.broken_up("<|im_end|> a  b\n") == "<·|im_end|> a  b\n"


def test_own_tokens_that_come_later_are_seen() -> None:
    known: list[str] = []
    own = SpecialTokens(lambda: known)
    assert own.count("@@turn@@") == 0
    known.append("@@turn@@")
    assert own.count("@@turn@@") == 1


HOSTILE = st.lists(
    st.sampled_from([*TOKENS, *VARIANTS, *"<>|[]·｜＜ ", "im_end", "\u200b", "½", "ﷺ", "\ud800"])
    | st.characters(exclude_categories=())
).map("".join)


@given(HOSTILE)
def test_no_token_is_left_and_none_is_made(text: str) -> None:
    shown = FAMILIES.broken_up(text)
    bare = re.sub("[\u200b\u2060\ufeff\u00ad]", "", shown)
    assert not [token for token in TOKENS if token in shown or token in bare]
    assert FAMILIES.count(shown) == 0
    assert FAMILIES.broken_up(shown) == shown
    assert len(shown) - len(text) == FAMILIES.count(text)
    left = iter(shown)
    assert all(char in left for char in text), "only separators are added"


@pytest.mark.parametrize("piece", ["\x1b]", "\x1b[", "\x1b[1;", "##[", " ", "a "], ids=ascii)
def test_a_huge_text_is_cut(piece: str) -> None:
    assert len(clean(piece * 1_000_000)) <= 300


def test_a_command_that_a_break_puts_at_a_start_is_broken_up() -> None:
    assert wrapped("words " * 3 + "::error::x", 20) == ["words words words", "  : :error::x"]
    assert wrapped("x" * 19 + "::error::x", 20)[1] == "  : :error::x"
