"""What a judge is shown, through chat templates and a real tokenizer: no turn is forged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from jinja2 import Environment
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from refusal_checks.core.prompts import Message
from refusal_checks.judges import template
from refusal_checks.judges.trust import canary

_EACH = "{% for m in messages %}"
_END = "{% endfor %}"
TEMPLATES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ChatML": (
        _EACH + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" + _END,
        ("<|im_start|>", "<|im_end|>", "<tool_response>", "</tool_response>", "<think>"),
    ),
    "Llama 2": (
        "<s>" + _EACH + "[INST] {{ m.content }} [/INST]" + _END,
        ("<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
    ),
    "Llama 3": (
        _EACH
        + "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>"
        + _END,
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    "Gemma": (
        _EACH + "<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n" + _END,
        ("<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>"),
    ),
    "Mistral": (
        _EACH + "[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]" + _END,
        ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "</s>"),
    ),
    "DeepSeek": (
        _EACH + "<｜User｜>{{ m.content }}<｜Assistant｜>" + _END,
        ("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    ),
    "Phi": (
        _EACH + "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n" + _END,
        ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    ),
    "Harmony": (
        _EACH + "<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>" + _END,
        ("<|start|>", "<|message|>", "<|end|>", "<|channel|>"),
    ),
    "ChatGLM": (
        "[gMASK]<sop>" + _EACH + "<|{{ m.role }}|>\n{{ m.content }}" + _END,
        ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
    ),
}


def tokenizer(tokens: tuple[str, ...]) -> Tokenizer:
    vocabulary = {char: number for number, char in enumerate(sorted(ByteLevel.alphabet()))}
    made = Tokenizer(BPE(vocabulary, []))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.add_special_tokens(list(tokens))
    return made


@cache
def shown(prompted: str, answer: str) -> tuple[Message, ...]:
    exchange = canary.Exchange("x", "hostile", "refusal", None, "en", prompted, answer)
    return template.load("refusal").messages(exchange.as_prompt, answer)


@pytest.mark.parametrize("family", TEMPLATES)
def test_an_exchange_adds_no_special_token(family: str) -> None:
    source, tokens = TEMPLATES[family]
    rendered = Environment(autoescape=False).from_string(source)
    special = tokenizer(tokens)
    firsts = {special.token_to_id(token) for token in tokens}

    def count(prompted: str, answer: str) -> int:
        text = rendered.render(messages=shown(prompted, answer))
        ids = special.encode(text, add_special_tokens=False).ids
        return sum(one in firsts for one in ids)

    plain = count("A request?", "An answer.")
    assert plain
    assert special.encode("".join(tokens)).ids == [special.token_to_id(token) for token in tokens]
    for exchange in canary.load():
        assert count(exchange.prompt, exchange.answer) == plain, exchange.id
    assert count("".join(tokens), " ".join(tokens)) == plain
