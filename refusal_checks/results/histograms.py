"""Histograms of refusal confidence, one per benchmark, as files: JSON, CSV and a drawing (SVG)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from refusal_checks.core.files import write_json, write_text
from refusal_checks.core.text import clean
from refusal_checks.metrics.refusal import DECISIVE

FOLDER = "histograms"
"""Of a run's folder."""

BINS = 20
"""Bins of the refusal confidence, in [-1, 1]; two of them lie between the thresholds."""


@dataclass(frozen=True)
class Histogram:
    """Refusal confidence of a benchmark's prompts.

    Attributes:
        kind: of the benchmark.
        n: prompts that have a refusal confidence.
        counts: prompts by bin, ``BINS`` of them.
        complied, neutral, rejected: prompts below -0.1, between, above 0.1.
    """

    name: str
    kind: str
    n: int
    counts: Sequence[int]
    complied: int
    neutral: int
    rejected: int

    @property
    def top(self) -> int:
        """The count of the highest bin."""
        return max(self.counts)


def histogram(name: str, kind: str, confidences: Sequence[float]) -> Histogram:
    """The distribution of refusal confidences, at least one, each in [-1, 1]."""
    rounded = [round(value, 9) for value in confidences]  # 11 to 9 votes are exactly 0.1
    counts = [0] * BINS
    for value in rounded:
        counts[min(BINS - 1, math.floor(round((value + 1) * BINS / 2, 6)))] += 1
    rejected = sum(value > DECISIVE for value in rounded)
    complied = sum(value < -DECISIVE for value in rounded)
    neutral = len(rounded) - rejected - complied
    return Histogram(name, kind, len(rounded), counts, complied, neutral, rejected)


def write(folder: Path, candidate: str, found: Histogram) -> None:
    """Write a histogram's three files; they hold no text of a prompt or an answer.

    Args:
        folder: of the run.
        candidate: whose answers these are.
    """
    path, bins = folder / FOLDER / found.name, list(_bins(found))
    rows = [{"from": low, "to": high, "prompts": count} for low, high, count in bins]
    facts = {name: value for name, value in asdict(found).items() if name != "counts"}
    named = {"candidate": candidate, "benchmark": facts.pop("name"), "kind": facts.pop("kind")}
    write_json(_named(path, ".json"), {**named, **facts, "bins": rows})
    lines = [f"{low},{high},{count}" for low, high, count in bins]
    write_text(_named(path, ".csv"), "\n".join(["from,to,prompts", *lines, ""]))
    write_text(_named(path, ".svg"), "\n".join([*_drawn(f"{found.name}: {candidate}", found), ""]))


def _named(path: Path, suffix: str) -> Path:
    """The path with its whole name kept: benchmarks may have dots in theirs."""
    return path.with_name(path.name + suffix)


def _bins(found: Histogram) -> Iterator[tuple[float, float, int]]:
    """Lower and upper end of each bin, and its prompts."""
    half = BINS // 2
    for number, count in enumerate(found.counts):
        yield (number - half) / half, (number + 1 - half) / half, count


_COLOURS = {"complied": "#0072b2", "neutral": "#6a727d", "rejected": "#d55e00"}


def _drawn(title: str, found: Histogram) -> Iterator[str]:
    """The lines of an SVG file that draws the bins as bars."""
    head = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"'
    yield f'<svg {head} viewBox="0 0 440 280" width="880" height="560">'
    yield f"<title>Refusal confidence of {escape(clean(title, 120))}</title>"
    yield '<rect width="440" height="280" fill="#ffffff"/>'
    yield f'<text x="20" y="20">{escape(clean(title, 60))}, n = {found.n}</text>'
    for number, (low, high, count) in enumerate(_bins(found)):
        height = 200 * count / found.top
        side = "neutral" if 9 <= number <= 10 else "complied" if low < 0 else "rejected"
        yield (
            f'<rect x="{21 + 20 * number}" y="{240 - height:.1f}" width="18" '
            f'height="{height:.1f}" fill="{_COLOURS[side]}">'
            f"<title>{count} prompts from {low} to {high}</title></rect>"
        )
        if count:
            yield (
                f'<text x="{30 + 20 * number}" y="{236 - height:.1f}" font-size="9" '
                f'text-anchor="middle">{count}</text>'
            )
    yield '<path d="M20 240.5H420M200 30V240M240 30V240" stroke="#777777" fill="none"/>'
    for x, text in ((20, "-1"), (200, "-0.1"), (240, "0.1"), (420, "1")):
        yield f'<text x="{x}" y="255" text-anchor="middle" font-size="10">{text}</text>'
    for x, side in ((70, "complied"), (220, "neutral"), (370, "rejected")):
        words = f"{side} {getattr(found, side)}"
        yield f'<text x="{x}" y="273" text-anchor="middle" fill="{_COLOURS[side]}">{words}</text>'
    yield "</svg>"
