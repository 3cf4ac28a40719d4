"""Fits the judge's adapter to exchanges as tokens, on any device of torch.

A LoRA adapter on the encoder's layers, the pooler and a head on the first token learn. The biases
of the adapted layers become 0 first: with them the loss was that of chance (0.69) after 120 steps,
without them 0.50.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from demo.training import lora
from demo.training.optimiser import Optimiser

LAYERS = ("query", "key", "value", "dense")
RANK = 16
PAD = 1
BATCH_TOKENS = 4096
PASSES = 4
RATE, WARMUP = 6e-4, 40
"""The highest rate, and the steps until it is reached; it then falls to 0. From 1e-3 on, training
from nothing fell back to chance."""
MEAN_FROM = 0.7
"""The share of the steps after which the weights of each step count in the mean that is kept."""


@dataclass(frozen=True)
class Example:
    """An exchange as tokens.

    Attributes:
        weight: how much its loss counts.
    """

    ids: list[int]
    refuses: bool
    weight: float


def attach(model: Any) -> dict[str, torch.Tensor]:
    """Put adapters into a sequence classifier, and freeze the rest but pooler and head.

    Returns:
        The biases that are 0 now, by name: what is published holds them, too.
    """
    adapters = lora.attach(model.bert.encoder, LAYERS, RANK)
    biases: dict[str, torch.Tensor] = {
        f"bert.encoder.{name}.bias": one.linear.bias for name, one in adapters.items()
    }
    for bias in biases.values():
        torch.nn.init.zeros_(bias)
    model.bert.embeddings.requires_grad_(False)
    return biases


def learnt(model: Any) -> dict[str, torch.Tensor]:
    """What was trained, by name."""
    return {
        name: weight.detach().cpu().clone()
        for name, weight in model.named_parameters()
        if weight.requires_grad
    }


@torch.no_grad()
def lean(model: Any, shift: float) -> None:
    """Add to the log-odds of a refusal, in the head's own weights."""
    model.classifier.bias[1] += shift


def batches(examples: list[Example], rng: random.Random) -> list[list[Example]]:
    """Batches of similar lengths, in random order."""
    chunks: list[list[Example]] = [[]]
    for one in sorted(examples, key=lambda one: (len(one.ids) // 8, rng.random())):
        if (len(chunks[-1]) + 1) * len(one.ids) > BATCH_TOKENS and chunks[-1]:
            chunks.append([])
        chunks[-1].append(one)
    rng.shuffle(chunks)
    return chunks


def logits(model: Any, ids: Sequence[list[int]]) -> torch.Tensor:
    """Of both labels, in full precision."""
    width = max(map(len, ids))
    tokens = torch.tensor([one + [PAD] * (width - len(one)) for one in ids])
    tokens = tokens.to(model.device)
    scores: torch.Tensor = model(
        input_ids=tokens, attention_mask=(tokens != PAD).long()
    ).logits
    return scores.float()


def loss_of(model: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Weighted cross-entropy, the mean over the batch."""
    scores = logits(model, [one.ids for one in batch])
    labels = torch.tensor([int(one.refuses) for one in batch], device=scores.device)
    weights = torch.tensor([one.weight for one in batch], device=scores.device)
    losses = functional.cross_entropy(scores, labels, reduction="none")
    return (losses * weights).mean()


def fit(model: Any, passes: Sequence[list[Example]], seed: int) -> None:
    """Learn from the examples of all passes, in their order; the weights become a mean of steps."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    todo = [batch for examples in passes for batch in batches(examples, rng)]
    tokens = sum(len(one.ids) for batch in todo for one in batch)
    print(f"{len(passes)} passes, {tokens:,} tokens, {len(todo)} steps", flush=True)
    model.train()
    optimiser = Optimiser([each for each in model.parameters() if each.requires_grad])
    begin, mean = time.monotonic(), 0.7
    first_of_mean = int(len(todo) * MEAN_FROM) + 1
    for step, batch in enumerate(todo, 1):
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step(RATE * min(1.0, step / WARMUP) * (1 - (step - 1) / len(todo)))
        if step >= first_of_mean:
            optimiser.remember()
        if step % 50 == 0 or step == len(todo):
            mean += (loss.item() - mean) * 0.3
            spent = time.monotonic() - begin
            print(
                f"step {step} of {len(todo)}  loss {mean:.3f}  {spent:.0f} s",
                flush=True,
            )
    optimiser.average()
