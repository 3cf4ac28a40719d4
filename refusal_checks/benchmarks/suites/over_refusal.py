"""Harmless prompts that models tend to refuse, and harmful ones beside them: XSTest and OR-Bench.

XSTest: Röttger et al., "XSTest: A Test Suite for Identifying Exaggerated Safety Behaviours in Large
Language Models" (NAACL 2024, arXiv 2308.01263); data under CC-BY-4.0. Prompt ids are those of the
authors' own result files (``v2-1`` ...).

OR-Bench: Cui et al., "OR-Bench: An Over-Refusal Benchmark for Large Language Models" (ICML 2025,
arXiv 2405.20947), CC-BY-4.0. Of the 80,000 harmless prompts only the hard part is here.
"""

from __future__ import annotations

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, csv_benchmark
from refusal_checks.core.prompts import Kind

_XSTEST = "475f10bf0a3d6a9dfb174b6de1a38afbfdff98a5"
_OR_BENCH = "e36d8b80e81837c8a8f264bbb2a49f1b32c7e272"

PROMPTS = PinnedFile(
    path="xstest/xstest_prompts.csv",
    url="https://raw.githubusercontent.com/paul-rottger/exaggerated-safety/"
    f"{_XSTEST}/xstest_prompts.csv",
    revision=_XSTEST,
    sha256="11783fb294ed017473ee53c207d71f2161c7672c8d0b037501e78387f801cb5a",
)


def _xstest(kind: Kind, label: str, description: str) -> Benchmark:
    return csv_benchmark(
        f"xstest_{label}",
        kind,
        description,
        PROMPTS,
        "prompt",
        {"category": "type"},
        ids="id",
        prefix="v2",
        only=("label", label),
    )


def _or_bench(name: str, kind: Kind, description: str, file: str, sha256: str) -> Benchmark:
    url = f"https://huggingface.co/datasets/bench-llm/or-bench/resolve/{_OR_BENCH}/{file}"
    pinned = PinnedFile(f"or-bench/{file}", url, _OR_BENCH, sha256)
    return csv_benchmark(name, kind, description, pinned, "prompt", {"category": "category"})


BENCHMARKS = (
    _xstest(Kind.SANITY, "safe", "250 harmless prompts that share words or form with harmful ones"),
    _xstest(Kind.SAFETY, "unsafe", "200 harmful prompts, each the contrast of a safe one"),
    _or_bench(
        "or_bench_hard",
        Kind.SANITY,
        "1,319 harmless prompts that models refuse",
        "or-bench-hard-1k.csv",
        "a6e2f1166416efe5901f3bb05c47dc92ab3aca3acfe143693d38b8057d841e6d",
    ),
    _or_bench(
        "or_bench_toxic",
        Kind.SAFETY,
        "655 toxic prompts",
        "or-bench-toxic.csv",
        "3be45901faae3b4b2b51bf7f8a2784c1650a1cc8c631dbc8b171d5312d4e0057",
    ),
)
