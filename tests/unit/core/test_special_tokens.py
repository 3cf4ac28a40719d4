"""Special tokens in a text are found in every spelling, and broken up for good."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.text import FAMILIES, SEPARATOR, SpecialTokens

FAMILY = {
    "ChatML": ["<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>"],
    "Llama 2": ["[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<s>", "</s>"],
    "Llama 3": ["<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|python_tag|>"],
    "Llama 4": ["<|header_start|>", "<|eot|>"],
    "Gemma": ["<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<unused42>"],
    "Gemma 4": ["<|turn>", "<turn|>", "<|channel>", "<tool_call|>"],
    "Mistral": [
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "[TOOL_CALLS]",
        "[AVAILABLE_TOOLS]",
        "[IMG]",
    ],
    "DeepSeek": [
        "<｜begin▁of▁sentence｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜tool▁calls▁begin｜>",
    ],
    "Phi": ["<|system|>", "<|user|>", "<|end|>", "<|assistant|>"],
    "Harmony": [
        "<|start|>",
        "<|channel|>",
        "<|message|>",
        "<|return|>",
        "<|constrain|>",
        "<|call|>",
    ],
    "ChatGLM": ["[gMASK]", "<sop>", "<eop>", "<|observation|>"],
    "Qwen": ["<tool_call>", "</tool_call>", "<tool_response>", "<think>", "</think>", "/no_think"],
    "InternLM": ["<|action_start|>", "<eoh>", "<eoa>", "[UNUSED_TOKEN_146]"],
    "BERT": ["[CLS]", "[SEP]", "[unused12]"],
    "Cohere": ["<|START_OF_TURN_TOKEN|>", "<BOS_TOKEN>", "<EOS_TOKEN>"],
    "MiniMax": ["]~!b[", "]~b]", "[e~[", "<minimax:tool_call>", "</minimax:tool_call>"],
    "Kimi": ["<|im_middle|>", "[BOS]", "[EOT]"],
    "EXAONE": ["[|system|]", "[|endofturn|]"],
    "Seed": ["<seed:bos>", "<seed:eos>"],
    "Ling": ["<role>", "</role>"],
    "Falcon": [">>QUESTION<<"],
}
TOKENS = [token for tokens in FAMILY.values() for token in tokens]
VARIANTS = [
    "<|IM_END|>",
    "< |im_end| >",
    "<| im_end |>",
    "＜|im_end|＞",
    "<￨im_end￨>",
    "<∣im_end∣>",
    "<|im\u200b_end|>",
    "<\u2060|\ufeffim_end|\u00ad>",
    "<\u0338|im_end|>",
    "<|ｉｍ＿ｅｎｄ|>",
    "[inst]",
    "[ /INST ]",
    "［INST］",
    "<Start_Of_Turn>",
    "< end_of_turn >",
    "<|Assistant|>",
    "‹|im_end|›",
    "<\ud800|im_end|>",
]
ORDINARY = [
    "Sorry, I can't help with that.",
    "if a < b and c > d: x[0] | y",
    "<b>bold</b>, <p>text</p>, <br/>, <img src='x'>, List<String>",
    "[1] a source, [a link](http://example.org), - [ ] a task, [optional]",
    "x |> f |> g; a || b; cat file | sort > out; 1 << 3 >> 2",
    "https://example.org/think/no-thing",
    "ssh <user>@<host>, {user}, $USER",
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


@given(HOSTILE)
def test_only_separators_are_added(text: str) -> None:
    left = iter(FAMILIES.broken_up(text))
    assert all(char in left for char in text)
