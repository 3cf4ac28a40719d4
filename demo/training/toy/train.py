"""Trains the toy models from scratch: ``python -m demo.training.toy.train --steps 3000``.

With ``--steps`` the outcome depends on the seed alone (up to the machine's rounding); ``--minutes``
bends the learning rate to the time that is left instead.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from demo.training.corpus import Example, training_examples
from demo.training.toy.tokenizer import (
    END,
    PAD,
    SPECIAL,
    prompt_text,
    save,
    train_tokenizer,
)
from tests.toy_model import MODEL_DIR

BATCH_TOKENS = 2048
POOL = 1024
PEAK_RATE = 2e-3
WARMUP = 150
DROPOUT = 0.1
HEAD, HEAD_WEIGHT, JUDGE_WEIGHT = 8, 3.0, 6.0
"""The first tokens of a target decide between refusing and answering, so they weigh more; the
judge's more still, since a long prompt gives it one decision only."""
PAD_ID = SPECIAL.index(PAD)
STEPS = 2000


@dataclass(frozen=True)
class Batch:
    """Padded conversations.

    Attributes:
        tokens: ``(rows, length)`` token ids, padded on the right.
        weights: ``(rows, length)`` weight of each token's loss; 0 outside the targets.
    """

    tokens: torch.Tensor
    weights: torch.Tensor


def new_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    """A Llama of about four million parameters with random weights."""
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id(PAD),
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    # Plain attention: on a CPU its backward pass is faster than the fused one.
    model.set_attn_implementation("eager")
    return model


def batches(tokenizer: Tokenizer, seed: int) -> Iterator[Batch]:
    """An endless stream of batches of similar lengths, about ``BATCH_TOKENS`` tokens each."""
    rng = random.Random(seed)
    stream = training_examples(seed)
    # BPE dropout on half of the judge's prompts: the same word in other pieces, so that words the
    # vocabulary lacks look less strange.
    loose = Tokenizer.from_str(tokenizer.to_str())
    loose.model.dropout = DROPOUT
    while True:
        rows = [
            encode(example, loose if _loosen(rng, example) else tokenizer, tokenizer)
            for example in islice(stream, POOL)
        ]
        chunks = list(_chunks(sorted(rows, key=lambda row: len(row[0]))))
        rng.shuffle(chunks)
        yield from (_pad(chunk) for chunk in chunks)


def _loosen(rng: random.Random, example: Example) -> bool:
    return example.persona == "judge" and rng.random() < 0.5


Row = tuple[list[int], int, float]
"""A conversation's token ids, how many of them precede the target, and its first tokens' weight."""


def encode(example: Example, prompts: Tokenizer, targets: Tokenizer) -> Row:
    """A conversation as a row to learn from."""
    prompt = prompts.encode(prompt_text(example), add_special_tokens=False).ids
    target = targets.encode(example.target + END, add_special_tokens=False).ids
    weight = JUDGE_WEIGHT if example.persona == "judge" else HEAD_WEIGHT
    return prompt + target, len(prompt), weight


def _chunks(rows: list[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        if chunk and len(row[0]) * (len(chunk) + 1) > BATCH_TOKENS:
            yield chunk
            chunk = []
        chunk.append(row)
    yield chunk


def _pad(rows: list[Row]) -> Batch:
    length = max(len(ids) for ids, _, _ in rows)
    tokens = torch.zeros(len(rows), length, dtype=torch.long)
    weights = torch.zeros(len(rows), length)
    for row, (ids, start, weight) in enumerate(rows):
        tokens[row, : len(ids)] = torch.tensor(ids)
        weights[row, start : len(ids)] = 1.0
        weights[row, start : start + HEAD] = weight
    return Batch(tokens, weights * (tokens != PAD_ID))


def loss_of(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Weighted mean cross-entropy of the targets, which padding on the right cannot reach."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(batch.tokens, use_cache=False).last_hidden_state[:, :-1]
        weights = batch.weights[:, 1:]
        wanted = weights > 0
        logits = model.lm_head(hidden[wanted])
    losses = functional.cross_entropy(
        logits.float(), batch.tokens[:, 1:][wanted], reduction="none"
    )
    return (losses * weights[wanted]).sum() / weights.sum()


def train(
    model: LlamaForCausalLM, stream: Iterator[Batch], steps: int, minutes: float
) -> int:
    """Trains in place for that many steps, or minutes where ``minutes`` is positive."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": 0.05},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95), fused=True)
    begin, step, done = time.monotonic(), 0, 0.0
    while done < 1.0:
        for group in optimiser.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, (step + 1) / WARMUP) * _cosine(done)
        loss = loss_of(model, next(stream))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        step += 1
        elapsed = time.monotonic() - begin
        done = elapsed / (60 * minutes) if minutes > 0 else step / steps
        if step % 100 == 0:
            print(f"step {step}  loss {loss.item():.3f}  {elapsed:.0f} s", flush=True)
    return step


def _cosine(done: float) -> float:
    return 0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def write(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Saves weights in bfloat16, settings and tokenizer; the folder is replaced in one step."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".model-"))
    fresh.chmod(0o755)
    ends = {key: getattr(model.config, key) for key in ("eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(**ends)  # type: ignore[no-untyped-call]
    model.bfloat16().save_pretrained(fresh)
    (fresh / "model.safetensors").chmod(0o644)
    save(tokenizer, fresh)
    if folder.exists():
        shutil.rmtree(folder)
    fresh.rename(folder)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the toy models from scratch.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--minutes", type=float, default=0.0, help="instead of --steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=MODEL_DIR)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    tokenizer = train_tokenizer(arguments.seed)
    model = new_model(tokenizer)
    print(f"{model.num_parameters():,} parameters, {tokenizer.get_vocab_size()} tokens")
    stream = batches(tokenizer, arguments.seed + 1)
    steps = train(model, stream, arguments.steps, arguments.minutes)
    write(model, tokenizer, arguments.out)
    print(f"{steps} steps; saved in {arguments.out}")


if __name__ == "__main__":
    main()
