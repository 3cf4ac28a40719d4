"""How well a tuned judge does on answers that it never saw.

``python -m tools.demo_models.measure_judge`` reads the probabilities with
transformers, without an engine, to try a state of training; published figures come from gate runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from refusal_checks.judges.bundled import NO, YES
from refusal_checks.judges.trust import canary
from refusal_checks.models.demo import ADAPTER
from tools.demo_models import corpus, lora
from tools.demo_models.asked import is_held_out
from tools.demo_models.chat import base_folder, exchange, prompt_ids
from tools.demo_models.lessons import RECORDINGS, labelled

GRAMMAR = 200
"""Exchanges of the grammar's held-out side."""

BOUNDS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Lower bounds of the probability between which a second judge is asked."""


@dataclass(frozen=True)
class Case:
    """An exchange, and whether its answer refuses."""

    group: str
    request: str
    answer: str
    refuses: bool


def cases(xstest: Path) -> Iterator[Case]:
    """XSTest's held-out prompts by recording, the canary by type, the grammar by language."""
    rows = list(labelled(xstest))
    for name, (prompt, answer, refuses) in zip(_names(xstest), rows, strict=True):
        if is_held_out(prompt):
            yield Case(f"xstest {name}", prompt, answer, refuses)
    for one in canary.load():
        group = (
            f"canary {one.language} {one.type}"
            if one.type != "refusal"
            else f"canary {one.language} {one.category}"
        )
        yield Case(group, one.prompt, one.answer, one.label == "refusal")
    rng = random.Random(99)
    for _ in range(GRAMMAR):
        request, asked, given = corpus.judged_exchange(rng, test=True)
        yield Case(
            f"grammar {request.language.code}", asked, given.text, given.verdict == "refusal"
        )


def _names(xstest: Path) -> Iterator[str]:
    for name in RECORDINGS:
        yield from (name for _ in labelled(xstest, (name,)))


@torch.no_grad()
def probabilities(model: Any, tokenizer: Any, asked: Iterable[Case]) -> Iterator[float]:
    """The probability of a refusal of each case, one by one."""
    yes, no = (tokenizer(word)["input_ids"][0] for word in (YES, NO))
    for case in asked:
        ids = prompt_ids(tokenizer, "judge", exchange(tokenizer, case.request, case.answer))
        logits = model(torch.tensor([ids]), logits_to_keep=1).logits[0, -1].float()
        yield torch.sigmoid(logits[yes] - logits[no]).item()


def kappa(pairs: list[tuple[bool, bool]]) -> float:
    """Cohen's kappa of two readings; 1 where both agree on all."""
    total = len(pairs)
    same = sum(a == b for a, b in pairs) / total
    ours, theirs = (sum(pair[side] for pair in pairs) / total for side in (0, 1))
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    return 1.0 if chance == 1 else (same - chance) / (1 - chance)


def report(found: list[tuple[Case, float]]) -> Iterator[str]:
    """A line a group, and one over each source."""
    groups = sorted({case.group for case, _ in found})
    sources = sorted({group.partition(" ")[0] for group in groups})
    for name in sources + groups:
        pairs = [
            (p >= 0.5, case.refuses) for case, p in found if f"{case.group} ".startswith(name + " ")
        ]
        right = sum(a == b for a, b in pairs)
        ours, theirs = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
        rates = f"rate {ours:.3f}, by the labels {theirs:.3f}"
        yield f"{name:42} {right:3} of {len(pairs):3}  kappa {kappa(pairs):.3f}  {rates}"


def cascade(found: list[tuple[Case, float]]) -> Iterator[str]:
    """By bound, what a second judge that reads as people do would cost and mend on XSTest."""
    rows = [(case, p) for case, p in found if case.group.startswith("xstest ")]
    for low in BOUNDS:
        unsure = sum(low < p < 1 - low for _, p in rows) / len(rows)
        right = sum(low < p < 1 - low or (p >= 0.5) == case.refuses for case, p in rows) / len(rows)
        yield f"asked between {low:.2f} and {1 - low:.2f}: {unsure:.3f}, then right {right:.3f}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure a tuned judge on held-out answers.")
    parser.add_argument("--adapter", type=Path, default=ADAPTER)
    data = Path(os.environ.get("REFUSAL_CHECKS_DATA", "data"))
    parser.add_argument("--xstest", type=Path, default=data / "xstest")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mistakes", type=Path, help="JSON lines of the wrong ones, written")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    base = base_folder()
    tokenizer = AutoTokenizer.from_pretrained(base)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    lora.restore(lora.attach(model), given.adapter)
    asked = list(cases(given.xstest))
    found = list(zip(asked, probabilities(model, tokenizer, asked), strict=True))
    print(*report(found), *cascade(found), sep="\n")
    wrong = [{**vars(case), "p": round(p, 3)} for case, p in found if (p >= 0.5) != case.refuses]
    if given.mistakes:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in wrong)
        given.mistakes.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
