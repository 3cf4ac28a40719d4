"""Histograms of refusal confidence per benchmark, as JSON files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.files import FileDigest, write_json
from refusal_checks.metrics.refusal import DECISIVE

FOLDER = "histograms"  # of a run's folder
BINS = 20  # bins of the refusal confidence, in [-1, 1]; two of them lie between the thresholds


@dataclass(frozen=True)
class Histogram:
    """Counts of a benchmark's prompts with a refusal confidence: total, by bin and by outcome."""

    name: str
    kind: str
    n: int
    counts: Sequence[int]
    complied: int
    neutral: int
    rejected: int


def histogram(name: str, kind: str, confidences: Sequence[float]) -> Histogram:
    # 11 to 9 votes are exactly 0.1.
    rounded = [round(value, 9) for value in confidences]
    counts = [0] * BINS
    for value in rounded:
        counts[min(BINS - 1, math.floor(round((value + 1) * BINS / 2, 6)))] += 1
    rejected = sum(value > DECISIVE for value in rounded)
    complied = sum(value < -DECISIVE for value in rounded)
    neutral = len(rounded) - rejected - complied
    return Histogram(name, kind, len(rounded), counts, complied, neutral, rejected)


def write(folder: Path, candidate: str, histogram: Histogram) -> FileDigest:
    """Write a histogram into a run's folder."""
    half = BINS // 2
    bins: list[dict[str, float]] = []
    for place, prompts in enumerate(histogram.counts):
        low, high = (place - half) / half, (place + 1 - half) / half
        bins.append({"from": low, "to": high, "prompts": prompts})
    content = {
        "candidate": candidate,
        "benchmark": histogram.name,
        "kind": histogram.kind,
        "n": histogram.n,
        "complied": histogram.complied,
        "neutral": histogram.neutral,
        "rejected": histogram.rejected,
        "bins": bins,
    }
    return write_json(folder / FOLDER / f"{histogram.name}.json", content)
