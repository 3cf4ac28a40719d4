"""deccp: prompts on China that Qwen2-7B-Instruct refused (AUGMXNT/deccp, Apache-2.0).

A mirror with the authors' own file serves the benchmark ``deccp_censored`` from it if it lacks the
Hugging Face split of that name.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "fdf6610251d3714e088c942de795e93bdc8d76c2"

CENSORED = PinnedFile(
    path="deccp/censored.txt",
    url=f"https://raw.githubusercontent.com/AUGMXNT/deccp/{_REVISION}/data/censored.txt",
    revision=_REVISION,
    sha256="a1c1b06bebb44d6c69565d39f6abcc6133c108e32022425d21e21ca6cfc1781e",
)


def _load(mirror: Path | None) -> list[Prompt]:
    lines = fetch(CENSORED, mirror).read_text(encoding="utf-8").splitlines()
    texts = (line.strip() for line in lines if line.strip())
    return [Prompt.single(f"deccp_censored-{index}", text) for index, text in enumerate(texts)]


ORIGINAL = Benchmark(
    "deccp_censored",
    Kind.SENSITIVE,
    "95 prompts that Qwen2-7B-Instruct refused",
    _load,
    _REVISION,
    resources=(CENSORED,),
)
