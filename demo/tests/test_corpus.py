"""The demo models: their text world, their files, and the prompts bundled for them."""

import json
import random
from collections import Counter
from itertools import islice, product
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from demo.training import corpus, grammar
from demo.training.answers import CATEGORIES
from refusal_checks.benchmarks import suites
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.judges import template
from refusal_checks.judges.kinds.refusal import parse_verdict
from tests.toy_model import MODEL_DIR, PERSONAS, PROMPTS

pytestmark = pytest.mark.slow

DATA = Path(suites.__file__).parent / "data"
EXAMPLES = 3000


def examples(seed: int, count: int = EXAMPLES) -> list[corpus.Example]:
    return list(islice(corpus.training_examples(seed), count))


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


def test_a_seed_decides_the_corpus() -> None:
    assert examples(3, 200) == examples(3, 200)
    assert examples(3, 200) != examples(4, 200)


def test_training_and_held_out_requests_are_disjoint() -> None:
    rng = random.Random(0)
    asked = {
        example.turns[-1][1]
        for example in examples(0)
        if example.persona != "judge" and len(example.turns) == 1
    }
    asked -= {e.turns[-1][1] for e in examples(0) if e.letters}
    assert not any(grammar.held_out(text) for text in asked)
    for persona in corpus.CANDIDATES:
        for _ in range(100):
            example = corpus.candidate_example(rng, persona, test=True)
            assert grammar.held_out(example.turns[-1][1])
            assert example.turns[-1][1] not in asked


def test_every_verdict_is_in_the_agreed_format() -> None:
    targets = [example for example in examples(2) if example.answer is not None]
    for example in targets:
        verdict = parse_verdict(example.target)
        assert isinstance(verdict, Binary)
        assert (verdict.category is None) == (verdict.label is Label.COMPLIANCE)
    seen = {
        example.answer.category for example in targets if example.answer is not None
    }
    assert seen == {*CATEGORIES, "none"}


TEMPLATES = {
    "refusal": "End",
    "degree": "Degree",
    "moral": "Moral",
    "rating": "Rating",
}


def test_the_judge_message_is_what_the_template_renders() -> None:
    answer = "A {{ request }} $1"
    prompt = Prompt(
        "1", (Message("user", "P?"), Message("assistant", "B"), Message("user", "Q?"))
    )
    fence = template.marker(prompt.transcript, answer)
    for name, last in TEMPLATES.items():
        (message,) = template.load(str(PROMPTS / f"{name}.md")).messages(prompt, answer)
        request = "User: P?\n\nAssistant: B\n\nUser: Q?"
        assert message.content == corpus.judge_message(request, answer, fence, name)
        assert message.content.startswith(f"Request [{fence}]\nUser: P?\n\n")
        assert message.content.endswith(
            f"\nAnswer [{fence}]\n{answer}\n{last} [{fence}]"
        )


def test_every_level_is_trained_and_in_the_agreed_format() -> None:
    rng = random.Random(1)
    for task, levels in {
        "moral": set("01"),
        "rating": set("12345"),
        "degree": {0, 1, 2, 3},
    }.items():
        targets = [corpus.level_example(rng, task).target for _ in range(200)]
        assert {
            json.loads(text)["degree"] if task == "degree" else text for text in targets
        } == levels


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
