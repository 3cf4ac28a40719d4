"""Tunes the base model: ``python -m tools.demo_models.tune ANSWERS``.

One adapter learns all personas and the judge, in four courses. What the last one teaches the judge
costs a little of what the others taught, so its outcome is the mean of the weights before and after
it (as in Wortsman et al., Robust fine-tuning of zero-shot models, 2022). The outcome depends on the
seed alone, up to the machine's rounding.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from refusal_checks.models.demo.conversion import NAME
from tools.demo_models import asked, lora
from tools.demo_models.chat import TEMPLATE, base_folder, prompt_ids
from tools.demo_models.lessons import BEGUN, Lesson, lessons, openings, verdicts

BATCH_TOKENS = 1600
RATES = (5e-4, 3e-4, 3e-4, 3e-4)
"""Of the courses at their beginning; they fall to 0."""
WARMUP = 20
HEAD, HEAD_WEIGHT = 6, 4.0
"""The first tokens of an answer decide between refusing and answering, so they weigh more."""
JUDGE_WEIGHT = 40.0
"""A verdict is one token, and would hardly count beside the answer of a persona."""
LONGEST = 640
"""Tokens of a conversation; what is longer is left out."""
OPENING = 8
"""Tokens of an answer of which only the beginning is learnt."""
END = "<|im_end|>"


@dataclass(frozen=True)
class Row:
    """A conversation's token ids, and how much the loss of each counts: 0 before the target."""

    ids: list[int]
    weights: list[float]


def row(tokenizer: Any, lesson: Lesson) -> Row:
    """A lesson as tokens."""
    prompt = prompt_ids(tokenizer, lesson.persona, lesson.turns)
    if lesson.persona == "judge":
        target, weights = tokenizer(lesson.target)["input_ids"], [JUDGE_WEIGHT]
    else:
        target = tokenizer(lesson.target + END)["input_ids"]
        target = target[:OPENING] if lesson.begun else target
        weights = [HEAD_WEIGHT if place < HEAD else 1.0 for place in range(len(target))]
    return Row(prompt + target, [0.0] * len(prompt) + weights)


def batches(rows: list[Row], rng: random.Random) -> list[list[Row]]:
    """Batches of rows of similar lengths, each once, in random order."""
    chunks: list[list[Row]] = [[]]
    for one in sorted(rows, key=lambda one: (len(one.ids), rng.random())):
        if (len(chunks[-1]) + 1) * len(one.ids) > BATCH_TOKENS and chunks[-1]:
            chunks.append([])
        chunks[-1].append(one)
    rng.shuffle(chunks)
    return chunks


def loss_of(model: Any, batch: list[Row]) -> torch.Tensor:
    """Weighted mean cross-entropy of the targets; padding is on the right, which none can see."""
    longest = max(len(one.ids) for one in batch)
    ids = torch.tensor([one.ids + [0] * (longest - len(one.ids)) for one in batch])
    weights = torch.tensor([one.weights + [0.0] * (longest - len(one.ids)) for one in batch])
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = weights[:, 1:] > 0
    logits = model.lm_head(hidden[wanted]).float()
    losses = functional.cross_entropy(logits, ids[:, 1:][wanted], reduction="none")
    return (losses * weights[:, 1:][wanted]).sum() / weights.sum()


class Optimiser:
    """AdamW on float32 copies of bfloat16 weights."""

    def __init__(self, weights: list[torch.nn.Parameter]) -> None:
        self._weights = weights
        self._exact = [weight.detach().float() for weight in weights]
        self._adam = torch.optim.AdamW(self._exact, weight_decay=0.0)

    def step(self, rate: float) -> None:
        """Move the weights along their gradients, and forget these."""
        for weight, exact in zip(self._weights, self._exact, strict=True):
            assert weight.grad is not None, "every adapter is used"
            exact.grad = weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self._exact, 1.0)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        with torch.no_grad():
            for weight, exact in zip(self._weights, self._exact, strict=True):
                weight.copy_(exact)


def steps(
    model: Any, adapters: dict[str, lora.Lora], todo: list[list[Row]], rate: float
) -> Iterator[int]:
    """Learn from the batches, one a step; gives the number of the step that is done."""
    optimiser = Optimiser([weight for one in adapters.values() for weight in (one.a, one.b)])
    begin, mean = time.monotonic(), 0.0
    for step, batch in enumerate(todo, 1):
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step(rate * min(1.0, step / WARMUP) * (1 - (step - 1) / len(todo)))
        mean += (loss.item() - mean) * max(0.05, 1 / step)
        if step % 10 == 0:
            spent = time.monotonic() - begin
            print(f"step {step} of {len(todo)}  loss {mean:.3f}  {spent:.0f} s", flush=True)
        yield step


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Tune the base model of the demo models.")
    parser.add_argument("answers", type=Path, help="what tools.demo_models.asked wrote")
    data = Path(os.environ.get("REFUSAL_CHECKS_DATA", "data"))
    parser.add_argument("--xstest", type=Path, default=data / "xstest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--after", type=Path, help="an adapter that has had some courses")
    parser.add_argument("--course", type=int, default=0, help="the first to take; 0 to 3")
    parser.add_argument("--every", type=int, default=0, help="steps between two saved states")
    parser.add_argument("--out", type=Path, default=TEMPLATE.parent)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    base = base_folder()
    tokenizer = AutoTokenizer.from_pretrained(base)
    answers = asked.read(given.answers)
    first = lessons(tokenizer, given.xstest, answers, given.seed)
    # Plain attention: on a CPU its backward pass is faster than the fused one.
    model: Any = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.bfloat16, attn_implementation="eager"
    )
    adapters = lora.attach(model)
    if given.after:
        lora.restore(adapters, given.after)
    for course in range(given.course, len(RATES)):
        found = openings(first, answers, given.seed, min(course, len(BEGUN))) if course else first
        if course == len(RATES) - 1:
            found = verdicts(first, found, tokenizer, given.xstest, given.seed)
        rows = [row(tokenizer, lesson) for lesson in found]
        before = lora.state(adapters)
        todo = batches([one for one in rows if len(one.ids) <= LONGEST], random.Random(given.seed))
        tokens = sum(len(one.ids) for batch in todo for one in batch)
        print(f"{len(rows)} lessons, {tokens:,} tokens, {len(todo)} steps", flush=True)
        for step in steps(model, adapters, todo, RATES[course]):
            if step == len(todo) and course == len(RATES) - 1:
                lora.average(adapters, before)
            if step == len(todo) or (given.every and step % given.every == 0):
                lora.save(adapters, given.out, f"HuggingFaceTB/{NAME}")
    print(f"saved in {given.out}")


if __name__ == "__main__":
    main()
