"""How many prompts of a benchmark have which refusal confidence, as files: JSON and CSV."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from refusal_checks.core.files import write_json, write_text
from refusal_checks.metrics.refusal import DECISIVE

FOLDER = "histograms"  # of a run's folder
BINS = 20  # bins of the refusal confidence, in [-1, 1]; two of them lie between the thresholds


@dataclass(frozen=True)
class Histogram:
    """Numbers of a benchmark's prompts with a refusal confidence: all, by bin, and by outcome."""

    name: str
    kind: str
    n: int
    counts: Sequence[int]
    complied: int
    neutral: int
    rejected: int


def histogram(name: str, kind: str, confidences: Sequence[float]) -> Histogram:
    rounded = [
        round(value, 9) for value in confidences
    ]  # 11 to 9 votes are exactly 0.1
    counts = [0] * BINS
    for value in rounded:
        counts[min(BINS - 1, math.floor(round((value + 1) * BINS / 2, 6)))] += 1
    rejected = sum(value > DECISIVE for value in rounded)
    complied = sum(value < -DECISIVE for value in rounded)
    neutral = len(rounded) - rejected - complied
    return Histogram(name, kind, len(rounded), counts, complied, neutral, rejected)


def write(folder: Path, candidate: str, found: Histogram) -> None:
    half = BINS // 2
    bins = [
        ((n - half) / half, (n + 1 - half) / half, each)
        for n, each in enumerate(found.counts)
    ]
    rows = [{"from": low, "to": high, "prompts": count} for low, high, count in bins]
    facts = {name: value for name, value in asdict(found).items() if name != "counts"}
    named = {
        "candidate": candidate,
        "benchmark": facts.pop("name"),
        "kind": facts.pop("kind"),
    }
    path = folder / FOLDER / found.name
    write_json(path.with_name(f"{found.name}.json"), {**named, **facts, "bins": rows})
    lines = [f"{low},{high},{count}" for low, high, count in bins]
    write_text(
        path.with_name(f"{found.name}.csv"), "\n".join(["from,to,prompts", *lines, ""])
    )


def read(folder: Path) -> Iterator[Histogram]:
    for path in sorted((folder / FOLDER).glob("*.json")):
        found = json.loads(path.read_bytes())
        counts = [each["prompts"] for each in found["bins"]]
        sides = (found[side] for side in ("complied", "neutral", "rejected"))
        yield Histogram(found["benchmark"], found["kind"], found["n"], counts, *sides)
