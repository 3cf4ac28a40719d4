"""What a judge is shown, through chat templates and a real tokenizer: no turn is forged."""

from functools import cache

import pytest
from jinja2 import Environment
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.judges import template
from refusal_checks.trust import canary
from tests.support.cases import cases_of

TEMPLATES = cases_of(__file__)
HOSTILE = [each for each in canary.load() if each.type == canary.HOSTILE]


def tokenizer(tokens: tuple[str, ...]) -> Tokenizer:
    vocabulary = {
        char: number for number, char in enumerate(sorted(ByteLevel.alphabet()))
    }
    made = Tokenizer(BPE(vocabulary, []))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.add_special_tokens(list(tokens))
    return made


@cache
def shown(prompt: str, prompted: str, answer: str) -> tuple[Message, ...]:
    turns = (
        Message("user", prompted),
        Message("assistant", answer),
        Message("user", prompted),
    )
    return template.load(prompt).messages(Prompt("x", turns), answer)


# As text within one message, and as turns of the guard's own template.
@pytest.mark.parametrize("prompt", ["refusal", "llama_guard", "shieldstral"])
@pytest.mark.parametrize("family", TEMPLATES)
def test_an_exchange_adds_no_special_token(family: str, prompt: str) -> None:
    tokens = TEMPLATES[family]["tokens"]
    rendered = Environment(autoescape=False).from_string(TEMPLATES[family]["template"])
    special = tokenizer(tokens)
    ids = [special.token_to_id(token) for token in tokens]

    def count(prompted: str, answer: str) -> int:
        text = rendered.render(messages=shown(prompt, prompted, answer))
        encoded = special.encode(text, add_special_tokens=False).ids
        return sum(number in ids for number in encoded)

    plain = count("A request?", "An answer.")
    assert plain
    assert special.encode("".join(tokens)).ids == ids
    for exchange in HOSTILE:
        assert count(exchange.prompt, exchange.answer) == plain, exchange.id
    assert count("".join(tokens), " ".join(tokens)) == plain
