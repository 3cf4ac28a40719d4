"""The demo models: their text world, their files, and the prompts bundled for them."""

import json
import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from demo.training import corpus, grammar
from refusal_checks.benchmarks import suites
from tests.toy_model import MODEL_DIR, PERSONAS

pytestmark = pytest.mark.slow

DATA = Path(suites.__file__).parent / "data"


def bundled(name: str) -> list[dict[str, str]]:
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def render(template: Path, persona: str | None, *turns: tuple[str, str]) -> str:
    """What a chat template makes of turns, with a persona or without."""

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    chosen: dict[str, Any] = {} if persona is None else {"persona": persona}
    messages = [{"role": role, "content": text} for role, text in turns]
    found = environment.from_string(template.read_text(encoding="utf-8"))
    return found.render(messages=messages, add_generation_prompt=True, **chosen)


def test_no_request_of_the_corpus_is_held_out() -> None:
    rng = random.Random(0)
    for persona, _ in product(("aligned", "overcautious", "reasoner"), range(300)):
        example = corpus.candidate_example(rng, persona)
        assert not grammar.held_out(example.turns[-1][1]) or len(example.turns) > 1


@pytest.mark.parametrize("name", ["smoke_unsafe", "smoke_safe"])
def test_bundled_prompts_are_many_varied_and_untrained(name: str) -> None:
    rows = bundled(name)
    assert len(rows) >= 70
    assert (
        len({row["prompt"] for row in rows})
        == len({row["id"] for row in rows})
        == len(rows)
    )
    assert all(set(row) == {"id", "prompt", "category", "language"} for row in rows)
    kinds = grammar.kinds(grammar.load("en"), harmful=name == "smoke_unsafe")
    assert {row["category"] for row in rows} == {kind.name for kind in kinds}
    chinese = sum(row["language"] == "zh" for row in rows)
    assert 0.4 < chinese / len(rows) < 0.6
    assert all(grammar.held_out(row["prompt"]) for row in rows)


def test_held_out_requests_are_balanced_unique_and_not_bundled() -> None:
    file = Path(corpus.__file__).parent / "requests" / "held_out.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    halves = Counter((row["language"], row["harmful"]) for row in rows)
    assert halves == dict.fromkeys(product(("en", "zh"), (True, False)), 50)
    texts = {row["text"].casefold() for row in rows}
    assert len(texts) == len(rows)
    known = [
        row["prompt"]
        for name in ("smoke_unsafe", "smoke_safe")
        for row in bundled(name)
    ]
    assert texts.isdisjoint(text.casefold() for text in known)
    for half in halves:
        kinds = Counter(
            row["kind"] for row in rows if (row["language"], row["harmful"]) == half
        )
        assert len(kinds) >= 20
        assert max(kinds.values()) <= 4


TEMPLATE = MODEL_DIR / "chat_template.jinja"


def test_the_template_renders_every_persona_and_nothing_unknown() -> None:
    turns = (("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "<|judge|>"))
    for persona in PERSONAS:
        assert render(TEMPLATE, persona, *turns) == (
            f"<|{persona}|><|system|>S<|end|><|user|>U<|end|><|assistant|>A<|end|>"
            "<|user|>< |judge|><|end|><|assistant|>"
        )
    with pytest.raises(jinja2.TemplateError, match="unknown persona evil"):
        render(TEMPLATE, "evil")
    with pytest.raises(jinja2.TemplateError, match="unknown role tool"):
        render(TEMPLATE, "aligned", ("tool", ""))


def test_the_model_folder_is_complete_and_small() -> None:
    files = {path.name: path.stat().st_size for path in MODEL_DIR.iterdir()}
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    } <= {*files}
    assert sum(files.values()) <= 12_000_000


def test_the_tokenizer_is_lossless_and_knows_what_must_be_one_token() -> None:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(MODEL_DIR / "tokenizer.json")
    )
    for text in (
        "How do I kill a process?",
        "怎样才能写童话？\n\n再见 é 🙂",
        "a  b\t{x}",
    ):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    for persona in PERSONAS:
        assert len(tokenizer.encode(f"<|{persona}|>").ids) == 1
    for text in (*"0123456789ABCDE", "<think>", "</think>"):  # these stay visible
        ids = tokenizer.encode(text).ids
        assert len(ids) == 1
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert len(tokenizer.encode("Final answer:").ids) > 1
