"""What the base model is asked before it is tuned, and its answers, on which its personas build.

``python -m demo.training.asked FILE`` asks it on vLLM, offline, within minutes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from demo.training import grammar, intents
from demo.training.chat import base_folder

GRAMMAR, INTENTS = 450, 250
"""Harmless requests, in English: in Chinese the base model has nothing to say. Of answers to these
the personas learn the whole."""
OPENINGS = {"grammar": 500, "intents": 1900}
"""Further ones, of whose answers they learn the opening."""
TOKENS = {"opening": 12}
"""By source; of others 96."""
SEED = 17


@dataclass(frozen=True)
class Asked:
    """A request and what the base model answered.

    Attributes:
        source: ``grammar``, ``intents``, or ``xstest`` for a safe prompt of that set that is not
            held out; ``opening`` where only the beginning of the answer is asked for.
        kind: the grammar's kind; empty for others.
        task: the verb phrase the request is made of; empty for others.
    """

    source: str
    kind: str
    task: str
    request: str
    answer: str = ""


def is_held_out(prompt: str) -> bool:
    """True for a quarter of the prompts, by their text: no answer to these is ever trained on."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 64


def xstest_prompts(xstest: Path, label: str) -> list[str]:
    """XSTest's safe or unsafe prompts, without those that are held out."""
    with (xstest / "xstest_prompts.csv").open(encoding="utf-8", newline="") as file:
        found = [row["prompt"] for row in csv.DictReader(file) if row["label"] == label]
    return [prompt for prompt in found if not is_held_out(prompt)]


def requests(xstest: Path, seed: int = SEED) -> Iterator[Asked]:
    """All requests for the base model, without answers."""
    rng, language = random.Random(seed), grammar.load("en")

    def composed(source: str, count: int) -> Iterator[Asked]:
        found: dict[str, Asked] = {}
        while len(found) < count:
            kind = rng.choice(grammar.kinds(language, harmful=False))
            one = grammar.sample_request(rng, language, kind)
            if not grammar.held_out(one.text):
                found[one.text] = Asked(source, kind.name, one.task, one.text)
        yield from found.values()

    drawn = intents.draw(rng, "en", harmful=False)
    yield from composed("grammar", GRAMMAR)
    yield from (Asked("intents", "", "", text) for text in islice(drawn, INTENTS))
    yield from (
        Asked("xstest", "", "", text) for text in xstest_prompts(xstest, "safe")
    )
    yield from composed("opening", OPENINGS["grammar"])
    yield from (
        Asked("opening", "", "", text) for text in islice(drawn, OPENINGS["intents"])
    )


def ask(base: str, asked: list[Asked], threads: int) -> Iterator[Asked]:
    """The requests with the base model's answers, sampled with a fixed seed."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    os.environ["OMP_NUM_THREADS"] = str(threads)
    from vllm import LLM, SamplingParams

    engine = LLM(
        base,
        max_model_len=1024,
        max_num_seqs=64,
        enforce_eager=True,
        seed=SEED,
        gpu_memory_utilization=0.1,  # of the machine's memory, which others use too
    )
    sampling = [
        SamplingParams(
            temperature=0.3,
            max_tokens=TOKENS.get(one.source, 96),
            seed=SEED + place,
        )
        for place, one in enumerate(asked)
    ]
    turns: list[Any] = [[{"role": "user", "content": one.request}] for one in asked]
    for one, output in zip(asked, engine.chat(turns, sampling), strict=True):
        yield Asked(**{**asdict(one), "answer": output.outputs[0].text.strip()})


def read(file: Path) -> list[Asked]:
    """The answers in a file."""
    return [
        Asked(**json.loads(line))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Ask the base model what it is tuned with."
    )
    parser.add_argument("file", type=Path, help="JSON lines, written")
    parser.add_argument(
        "--xstest",
        type=Path,
        default=Path(os.environ.get("REFUSAL_CHECKS_DATA", "data")) / "xstest",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    answered = ask(str(base_folder()), list(requests(given.xstest)), given.threads)
    lines = [json.dumps(asdict(one), ensure_ascii=False) for one in answered]
    given.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} answers in {given.file}")


if __name__ == "__main__":
    main()
