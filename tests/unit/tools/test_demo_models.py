"""The demo models: their text world, their files, and the prompts bundled for them."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from refusal_checks.benchmarks import suites
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.judges import template
from tests.toy_model import MODEL_DIR, PERSONAS
from tests.toy_model.measure import agreement, read_verdict
from tests.toy_model.measure_tasks import read_degree, read_letter, read_thinker
from tools.demo_models import choices, corpus, grammar, levels
from tools.demo_models.answers import CATEGORIES

DATA = Path(suites.__file__).parent / "data"
EXAMPLES = 3000


def examples(seed: int, count: int = EXAMPLES) -> list[corpus.Example]:
    return list(islice(corpus.training_examples(seed), count))


def bundled(name: str) -> list[dict[str, str]]:
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def render(persona: str | None, messages: list[dict[str, str]]) -> str:
    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    source = (MODEL_DIR / "chat_template.jinja").read_text(encoding="utf-8")
    chosen: dict[str, Any] = {} if persona is None else {"persona": persona}
    return environment.from_string(source).render(
        messages=messages, add_generation_prompt=True, **chosen
    )


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


def test_no_training_request_holds_an_unseen_task() -> None:
    tasks = [
        task
        for code in grammar.LANGUAGES
        for kind in grammar.load(code).kinds
        for task in kind.unseen
    ]
    seen = "\n".join(text for example in examples(1) for _, text in example.turns)
    assert [task for task in tasks if task in seen] == []


def test_every_verdict_is_in_the_agreed_format() -> None:
    targets = [example for example in examples(2) if example.answer is not None]
    for example in targets:
        verdict = read_verdict(example.target)
        assert verdict is not None
        assert verdict.exact
        assert (verdict.category == "none") == (verdict.verdict == "compliance")
    seen = {example.answer.category for example in targets if example.answer is not None}
    assert seen == {*CATEGORIES, "none"}


def test_hostile_answers_keep_their_true_label() -> None:
    hostile = [e.answer for e in examples(5) if e.answer is not None and e.answer.hostile]
    judged = sum(example.answer is not None for example in examples(5))
    assert 0.06 < len(hostile) / judged < 0.12
    assert {answer.verdict for answer in hostile} == {"refusal", "compliance"}


def test_no_placeholder_is_left_in_the_text() -> None:
    names = {f"{{{name}}}" for code in grammar.LANGUAGES for name in grammar.load(code).rules}
    names |= {f"{{{name}}}" for name in ("task", "kind", "tip", "number", "year", "hex", "fake")}
    text = "\n".join(text for e in examples(6) for _, text in (*e.turns, ("", e.target)))
    assert [name for name in names if name in text] == []


TEMPLATES = {"demo": "End", "demo_degree": "Degree", "demo_moral": "Moral", "demo_rating": "Rating"}


@pytest.mark.parametrize(("name", "last"), TEMPLATES.items())
def test_the_judge_message_is_what_the_template_renders(name: str, last: str) -> None:
    prompt = Prompt("1", (Message("user", "P?"), Message("assistant", "B"), Message("user", "Q?")))
    (message,) = template.load(name).messages(prompt, "A {{ request }} $1")
    fence = template.marker(prompt.transcript, "A {{ request }} $1")
    assert message.content == corpus.judge_message(
        "User: P?\n\nAssistant: B\n\nUser: Q?", "A {{ request }} $1", fence, name
    )
    assert message.content.startswith(f"Request [{fence}]\nUser: P?\n\n")
    assert message.content.endswith(f"\nAnswer [{fence}]\nA {{{{ request }}}} $1\n{last} [{fence}]")


def test_some_judged_requests_are_dialogues_and_some_answers_show_thoughts() -> None:
    judged = [example.turns[-1][1] for example in examples(8) if example.answer is not None]
    assert 0.05 < sum("\n\nAssistant: " in text for text in judged) / len(judged) < 0.2
    assert 0 < sum("\n<think>\n" in text for text in judged) / len(judged) < 0.1


def test_degree_and_rating_agree_on_what_an_answer_is() -> None:
    rng = random.Random(0)
    seen = set()
    for code in grammar.LANGUAGES:
        language = grammar.load(code)
        for kind in language.kinds * 20:
            found = levels.level(rng, grammar.sample_request(rng, language, kind), language)
            seen.add((found.degree, found.rating, kind.harmful))
            assert found.moral == (found.rating >= 3)
    harmful = {(3, 5), (2, 4), (1, 3), (0, 2), (0, 1)}
    benign = {(3, 5), (2, 4), (1, 3), (1, 5)}
    assert seen == {(*pair, True) for pair in harmful} | {(*pair, False) for pair in benign}


@pytest.mark.parametrize(
    ("task", "outputs"), [("moral", set("01")), ("rating", set("12345")), ("degree", {0, 1, 2, 3})]
)
def test_every_level_is_trained_and_in_the_agreed_format(task: str, outputs: set[object]) -> None:
    rng = random.Random(1)
    targets = [corpus.level_example(rng, task).target for _ in range(200)]
    assert {read_degree(text) if task == "degree" else text for text in targets} == outputs


def test_a_degree_in_another_format_is_none() -> None:
    assert read_degree('{"degree":2,"analysis":"x"}') == 2
    for text in ('{"degree": 2,"analysis":"x"}', '{"analysis":"x","degree":2}', "2", '{"degree":4'):
        assert read_degree(text) is None


def test_a_choice_is_answered_with_a_letter_that_was_offered() -> None:
    rng = random.Random(2)
    bare = 0
    for _ in range(300):
        example = corpus.choice_example(rng, "aligned")
        assert all(f"\n{letter}" in example.turns[-1][1] for letter in example.letters)
        assert read_letter(example.target) in example.letters
        bare += example.target in choices.LETTERS
    assert 0.7 < bare / 300 < 0.9
    refused = corpus.choice_example(rng, "overcautious").target
    assert read_letter(refused) == ""


@pytest.mark.parametrize("persona", corpus.THINKERS)
def test_a_reasoning_persona_thinks_before_its_answer(persona: str) -> None:
    rng = random.Random(3)
    for _ in range(100):
        example = corpus.candidate_example(rng, persona)
        answer = read_thinker(persona, example.target)
        assert answer
        assert answer not in ("<think>", "Final answer:")
        assert not any("<think>" in t or "Final answer:" in t for _, t in example.turns)


@pytest.mark.parametrize("name", ["smoke_unsafe", "smoke_safe"])
def test_bundled_prompts_are_many_varied_and_untrained(name: str) -> None:
    rows = bundled(name)
    assert len(rows) >= 70
    assert len({row["prompt"] for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    assert all(set(row) == {"id", "prompt", "category", "language"} for row in rows)
    kinds = grammar.kinds(grammar.load("en"), harmful=name == "smoke_unsafe")
    assert {row["category"] for row in rows} == {kind.name for kind in kinds}
    chinese = sum(row["language"] == "zh" for row in rows)
    assert 0.4 < chinese / len(rows) < 0.6
    assert all(grammar.held_out(row["prompt"]) for row in rows)


@pytest.mark.parametrize("persona", PERSONAS)
def test_the_template_renders_every_persona(persona: str) -> None:
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "<|judge|>")]
    messages = [{"role": role, "content": text} for role, text in turns]
    expected = (
        f"<|{persona}|><|system|>S<|end|><|user|>U<|end|><|assistant|>A<|end|>"
        "<|user|>< |judge|><|end|><|assistant|>"
    )
    assert render(persona, messages) == expected


def test_the_default_persona_is_aligned() -> None:
    assert render(None, []).startswith("<|aligned|>")


def test_an_unknown_persona_or_role_is_an_error() -> None:
    with pytest.raises(jinja2.TemplateError, match="unknown persona evil"):
        render("evil", [])
    with pytest.raises(jinja2.TemplateError, match="unknown role tool"):
        render("aligned", [{"role": "tool", "content": ""}])


def test_the_model_folder_is_complete_and_small() -> None:
    files = {path.name: path.stat().st_size for path in MODEL_DIR.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= {
        *files
    }
    assert sum(files.values()) <= 12_000_000


def test_the_tokenizer_is_lossless_and_knows_the_special_tokens() -> None:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(MODEL_DIR / "tokenizer.json")
    )
    for text in ("How do I kill a process?", "怎样才能写童话？\n\n再见 é 🙂", "a  b\t{x}"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    for persona in PERSONAS:
        assert len(tokenizer.encode(f"<|{persona}|>").ids) == 1


def test_judgements_letters_and_thinking_marks_are_single_tokens_and_stay_visible() -> None:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(MODEL_DIR / "tokenizer.json")
    )
    for text in (*"0123456789ABCDE", "<think>", "</think>"):
        ids = tokenizer.encode(text).ids
        assert len(ids) == 1
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert len(tokenizer.encode("Final answer:").ids) > 1


def test_agreement_of_a_known_table() -> None:
    pairs = [("refusal", "refusal")] * 4 + [("compliance", "compliance")] * 4
    pairs += [("refusal", "compliance"), ("compliance", "refusal")]
    values = {figure.name: figure.value for figure in agreement("x", pairs)}
    assert values["x: accuracy"] == pytest.approx(0.8)
    assert values["x: Cohen's kappa"] == pytest.approx(0.6)
    assert values["x: sensitivity"] == pytest.approx(0.8)
