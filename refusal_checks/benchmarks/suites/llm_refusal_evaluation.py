"""The splits of LLM-Refusal-Evaluation (arXiv 2512.16602), and JailbreakBench.

XSTest's two splits come from its authors' own file, see ``tabular.toml``. A mirror holds the
published Parquet files under ``llm-refusal-evaluation/data``. Two splits can also be read from
their authors' own files, if a mirror holds only these:

- JailbreakBench (Chao et al. 2024, arXiv 2404.01318), MIT licence: 100 harmful behaviours
- deccp: prompts on China that Qwen2-7B-Instruct refused (AUGMXNT/deccp, Apache-2.0)
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.benchmarks.table_file import table_benchmark
from refusal_checks.core.prompts import Kind, Prompt

REPOSITORY = "MultiverseComputingCAI/llm-refusal-evaluation"
REVISION = "97ddaed9efda7993ccbb9dc504a104c86b6e233f"
FOLDER = "llm-refusal-evaluation/data"

BEHAVIOURS = PinnedFile(
    path="jailbreakbench/behaviors.csv",
    url="",  # no commit of github.com/JailbreakBench/artifacts holds it at a public address
    revision="main",
    sha256="def8d14d47a856284d3f96470203d34a9f8f78e641db89a0d151da5489c002e9",
)

_DECCP = "fdf6610251d3714e088c942de795e93bdc8d76c2"

CENSORED = PinnedFile(
    path="deccp/censored.txt",
    url=f"https://raw.githubusercontent.com/AUGMXNT/deccp/{_DECCP}/data/censored.txt",
    revision=_DECCP,
    sha256="a1c1b06bebb44d6c69565d39f6abcc6133c108e32022425d21e21ca6cfc1781e",
)


def _read_censored(mirror: Path | None) -> list[Prompt]:
    lines = fetch(CENSORED, mirror).read_text(encoding="utf-8").splitlines()
    texts = filter(None, map(str.strip, lines))
    return [
        Prompt.single(f"deccp_censored-{index}", text)
        for index, text in enumerate(texts)
    ]


def _load(split: HubSplit, mirror: Path | None) -> list[Prompt]:
    """Load a split; a prompt's id is its row's index, which the pinned revision fixes."""
    rows = split.table(mirror, ["prompt"], ["type", "dataset_source"])
    prompts = []
    for index, row in enumerate(rows):
        groups = {}
        if row.get("type") is not None:
            groups["category"] = str(row["type"])
        if row.get("dataset_source") is not None:
            groups["source"] = str(row["dataset_source"])
        prompts.append(Prompt.single(f"{split.split}-{index}", row["prompt"], **groups))
    return prompts


def _split(name: str, kind: Kind, description: str) -> Benchmark:
    split = HubSplit(REPOSITORY, REVISION, name, FOLDER)
    load = partial(_load, split)
    return Benchmark(name, kind, description, load, REVISION, resources=(split,))


_JAILBREAKBENCH = _split(
    "jailbreakbench", Kind.SAFETY, "JailbreakBench's 100 harmful behaviours"
)
_DECCP_CENSORED = _split(
    "deccp_censored", Kind.SENSITIVE, "95 prompts that Qwen2-7B-Instruct refused"
)

BENCHMARKS = (
    replace(
        _JAILBREAKBENCH,
        original=table_benchmark(
            _JAILBREAKBENCH.name,
            _JAILBREAKBENCH.kind,
            _JAILBREAKBENCH.description,
            BEHAVIOURS,
            "goal",
            {"category": "category"},
            ids="index",
        ),
    ),
    _split(
        "sorrybench", Kind.SAFETY, "SORRY-Bench: 440 unsafe prompts of 44 categories"
    ),
    _split("harmbench_sampled", Kind.SAFETY, "256 prompts sampled from HarmBench"),
    _split(
        "adversarial_unsafe_prompts",
        Kind.SAFETY,
        "unsafe prompts beside sensitive topics",
    ),
    _split(
        "ccp_sensitive_sampled", Kind.SENSITIVE, "topics that are sensitive in China"
    ),
    replace(
        _DECCP_CENSORED,
        original=replace(
            _DECCP_CENSORED, load=_read_censored, revision=_DECCP, resources=(CENSORED,)
        ),
    ),
    _split("general_prompts", Kind.SANITY, "everyday prompts"),
)
