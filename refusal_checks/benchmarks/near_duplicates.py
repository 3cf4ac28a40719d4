"""Find prompts that nearly repeat another one.

Their answers depend on each other, so intervals that take prompts as independent are too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.prompts import Prompt

SIMILAR = 0.8
"""Least share of common pieces, about that of two questions that differ in one word of twelve."""

_LENGTH = 3  # characters in a piece
_LOOKED_AT = 1000  # characters at either end of a prompt
_HASHES = 64  # per prompt; the standard error of a similarity of 0.8 is 0.05


def near_duplicates(prompts: Sequence[Prompt]) -> int:
    """Count the prompts that nearly repeat an earlier one, without those in its cluster.

    Similarity is Jaccard's index of overlapping pieces of text, estimated by MinHash; an index of
    hashes finds the candidates, so the time grows with the number of prompts and no faster.

    Source: A. Z. Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
    """
    # Imports parts of scipy, which collection need not wait for.
    from datasketch import MinHash, MinHashLSH

    # A lower threshold finds nearly all candidates; the comparison below decides.
    index = MinHashLSH(threshold=SIMILAR - 0.2, num_perm=_HASHES)
    different: dict[int, MinHash] = {}
    found = 0
    signatures = MinHash.generator(map(_pieces, prompts), num_perm=_HASHES)
    for number, (prompt, signature) in enumerate(zip(prompts, signatures, strict=True)):
        similar = []
        for other in index.query(signature):
            if different[other].jaccard(signature) >= SIMILAR:
                similar.append(prompts[other].cluster)
        if not similar:
            different[number] = signature
            index.insert(number, signature)
        elif not prompt.cluster or prompt.cluster not in similar:
            found += 1
    return found


def _pieces(prompt: Prompt) -> set[bytes]:
    text = " ".join(prompt.transcript.casefold().split())
    if len(text) > 2 * _LOOKED_AT:
        text = text[:_LOOKED_AT] + text[-_LOOKED_AT:]
    starts = range(max(1, len(text) - _LENGTH + 1))
    return {text[start : start + _LENGTH].encode() for start in starts}


def by_benchmark(
    plan: Mapping[str, Sequence[Prompt]], catalogue: Mapping[str, Benchmark]
) -> dict[str, int]:
    """Count near-duplicates in each benchmark.

    Prompts under attack are those of the plain benchmark, and count only where that is not
    evaluated.
    """
    counts: dict[str, int] = {}
    counted: set[str] = set()
    for name in sorted(plan, key=lambda name: bool(catalogue[name].attack)):
        plain = catalogue[name].plain or name
        if plain not in counted:
            counts[name] = near_duplicates([prompt.original for prompt in plan[name]])
        counted.add(plain)
    return counts
