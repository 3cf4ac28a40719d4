"""The toy models' tokenizer: byte-level BPE trained on the corpus, with its chat template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

from demo.training.answers import THINK, THOUGHT
from demo.training.corpus import Example, training_examples
from tests.toy_model import MODEL_DIR, PERSONAS

VOCABULARY = 5120
ROLES = ("system", "user", "assistant")
PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, *(f"<|{name}|>" for name in (*ROLES, *PERSONAS)))
VISIBLE = (THINK, THOUGHT)
"""Tokens of their own that stay in the text, where a reasoning parser looks for them."""
TEMPLATE = MODEL_DIR / "chat_template.jinja"
# Words with their leading space, and single Chinese characters and digits: any text is made of
# pieces that were trained in many places, and a judge's digit is one token.
_PIECES = Regex(r"[一-鿿]|'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+|\d| ?[^\s\w]+|\s+|[^\s]")


def train_tokenizer(seed: int, examples: int = 30_000) -> Tokenizer:
    """A BPE over that many training examples."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(VISIBLE),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(seed, examples), trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in VISIBLE])
    return tokenizer


def _texts(seed: int, examples: int) -> Iterator[str]:
    for example in islice(training_examples(seed), examples):
        yield from (text for _, text in example.turns)
        yield example.target


def prompt_text(example: Example) -> str:
    """The conversation up to the target, as the chat template renders it."""
    turns = "".join(
        f"<|{role}|>{text.replace('<|', '< |')}{END}" for role, text in example.turns
    )
    return f"<|{example.persona}|>{turns}<|assistant|>"


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes what transformers and vLLM need to load the tokenizer."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(settings, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    template = TEMPLATE.read_text(encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
