"""Tunes the base model: ``python -m demo.training.tune ANSWERS``.

One adapter learns all personas in four courses. The outcome depends on the seed alone, up to the
machine's rounding.
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

from demo.training import asked, lora
from demo.training.chat import TEMPLATE, base_folder, prompt_ids
from demo.training.lessons import Lesson, lessons, openings
from demo.training.optimiser import Optimiser
from refusal_checks_demo.conversion import SMOLLM2

BATCH_TOKENS = 1600
RATES = (5e-4, 3e-4, 3e-4, 3e-4)
"""Of the courses at their beginning; they fall to 0."""
WARMUP = 20
HEAD, HEAD_WEIGHT = 6, 4.0
"""The first tokens of an answer decide between refusing and answering, so they weigh more."""
LONGEST = 640
"""Tokens of a conversation; what is longer is left out."""
OPENING = 10
"""Tokens of an answer of which only the beginning is learnt."""
END = "<|im_end|>"
TOKENS_PER_SECOND = 330
"""On two cores without AMX, to say how long it takes."""


@dataclass(frozen=True)
class Row:
    """A conversation's token ids, and how much the loss of each counts: 0 before the target."""

    ids: list[int]
    weights: list[float]


def row(tokenizer: Any, lesson: Lesson) -> Row:
    """A lesson as tokens."""
    prompt = prompt_ids(tokenizer, lesson.persona, lesson.turns)
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
    weights = torch.tensor(
        [one.weights + [0.0] * (longest - len(one.ids)) for one in batch]
    )
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = weights[:, 1:] > 0
    logits = model.lm_head(hidden[wanted]).float()
    losses = functional.cross_entropy(logits, ids[:, 1:][wanted], reduction="none")
    return (losses * weights[:, 1:][wanted]).sum() / weights.sum()


def steps(
    model: Any, adapters: dict[str, lora.Lora], todo: list[list[Row]], rate: float
) -> Iterator[int]:
    """Learn from the batches, one a step; gives the number of the step that is done."""
    optimiser = Optimiser(
        [weight for one in adapters.values() for weight in (one.a, one.b)]
    )
    begin, mean, done = time.monotonic(), 0.0, 0
    for step, batch in enumerate(todo, 1):
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step(rate * min(1.0, step / WARMUP) * (1 - (step - 1) / len(todo)))
        mean += (loss.item() - mean) * max(0.05, 1 / step)
        done += sum(len(one.ids) for one in batch)
        if step % 10 == 0:
            spent = time.monotonic() - begin
            rates = f"{spent:.0f} s, {done / spent:.0f} tokens/s"
            print(f"step {step} of {len(todo)}  loss {mean:.3f}  {rates}", flush=True)
        yield step


def courses(
    tokenizer: Any, xstest: Path, answers: Path, seed: int
) -> list[list[list[Row]]]:
    """The batches of every course."""
    given = asked.read(answers)
    first = lessons(xstest, given, seed)
    found = [
        first,
        *(
            openings(first, xstest, given, seed, course)
            for course in range(1, len(RATES))
        ),
    ]
    planned = []
    for number, course in enumerate(found):
        rows = [
            one
            for one in (row(tokenizer, each) for each in course)
            if len(one.ids) <= LONGEST
        ]
        planned.append(batches(rows, random.Random(seed)))
        tokens = sum(len(one.ids) for one in rows)
        said = f"{len(rows)} lessons, {tokens:,} tokens, {len(planned[-1])} steps"
        print(
            f"course {number}: {said}, about {tokens / TOKENS_PER_SECOND / 60:.0f} min"
        )
    return planned


def save(adapters: dict[str, lora.Lora], out: Path) -> None:
    """Write the adapter with the chat template; a persona that is no longer tuned leaves it."""
    template = TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True)
    lora.save(adapters, out, f"HuggingFaceTB/{SMOLLM2.name}")
    kept = "".join(line for line in template if not line.startswith('  "judge":'))
    (out / TEMPLATE.name).write_text(kept, encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Tune the base model of the demo models."
    )
    parser.add_argument("answers", type=Path, help="what demo.training.asked wrote")
    data = Path(os.environ.get("REFUSAL_CHECKS_DATA", "data"))
    parser.add_argument("--xstest", type=Path, default=data / "xstest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--after", type=Path, help="an adapter that has had some courses"
    )
    parser.add_argument(
        "--course", type=int, default=0, help="the first to take; 0 to 3"
    )
    parser.add_argument(
        "--every", type=int, default=50, help="steps between two saved states"
    )
    parser.add_argument("--steps", type=int, help="of each course, to try it")
    parser.add_argument("--out", type=Path, default=TEMPLATE.parent)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    base = base_folder()
    tokenizer = AutoTokenizer.from_pretrained(base)
    planned = courses(tokenizer, given.xstest, given.answers, given.seed)
    # Plain attention: on a CPU its backward pass is faster than the fused one.
    model: Any = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.bfloat16, attn_implementation="eager"
    )
    adapters = lora.attach(model)
    if given.after:
        lora.restore(adapters, given.after)
    for course in range(given.course, len(RATES)):
        todo = planned[course][: given.steps]
        print(f"course {course}", flush=True)
        for step in steps(model, adapters, todo, RATES[course]):
            if step == len(todo) or step % given.every == 0:
                save(adapters, given.out)
    print(f"saved in {given.out}")


if __name__ == "__main__":
    main()
