"""Plain harmful requests: Do-Not-Answer, HarmBench, SimpleSafetyTests and StrongREJECT.

Do-Not-Answer: Wang et al., "Do-Not-Answer: A Dataset for Evaluating Safeguards in LLMs" (arXiv
2308.13387); data under CC BY-NC-SA 4.0 (not for commercial use), as its page says below the tag
apache-2.0. Many questions can be met without harm and without a refusal (a correction, both sides
of a matter), so answers are graded in degrees.

HarmBench: Mazeika et al. 2024 (arXiv 2402.04249), MIT licence. 400 behaviours: 200 standard, 100 on
copyrighted text, and 100 with a context, which precedes the request.

SimpleSafetyTests: Vidgen et al., "SimpleSafetyTests: a Test Suite for Identifying Critical Safety
Risks in Large Language Models" (arXiv 2311.08370). The licence of the authors' repository, whose
file this is, is CC BY-NC 4.0 (not for commercial use); their copy on the Hugging Face hub is tagged
CC BY 2.0.

StrongREJECT: Souly et al., "A StrongREJECT for Empty Jailbreaks" (arXiv 2402.10260), MIT licence;
see ``judges.kinds.strongreject``. An older release of the file has 346 prompts.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, csv_benchmark, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_DO_NOT_ANSWER = "74e74f2e4507ef256fe536f78a776f4a1ff67955"
_HARMBENCH = "eaee0d37ae91778f8f845ebfbf92ff5dd94ab8d8"
_SIMPLE = "d7aee9a9422a5a5488f478fd79c2479c891c0f3b"
_STRONGREJECT = "f7cad6c17e624e21d8df2278e918ae1dddb4cb56"

DO_NOT_ANSWER = PinnedFile(
    path="do-not-answer/train-00000-of-00001-6ba0076b818accff.parquet",
    url="https://huggingface.co/datasets/LibrAI/do-not-answer/resolve/"
    f"{_DO_NOT_ANSWER}/data/train-00000-of-00001-6ba0076b818accff.parquet",
    revision=_DO_NOT_ANSWER,
    sha256="cc03d6e34df834c4272ccb67eacb21f8016c1ac59c9dda77b74f93cc4154c04b",
)
HARMBENCH = PinnedFile(
    path="harmbench/harmbench_behaviors_text_all.csv",
    url="https://raw.githubusercontent.com/busycalibrating/AdversariaLLM/"
    f"{_HARMBENCH}/data/behavior_datasets/harmbench_behaviors_text_all.csv",
    revision=_HARMBENCH,
    sha256="2745611872be3b2eab141e39bb328b8c1140dc3cd8d0a49da6174260d9ccbfb9",
)
SIMPLE_SAFETY_TESTS = PinnedFile(
    path="simple-safety-tests/SimpleSafetyTests - test cases.csv",
    url="https://raw.githubusercontent.com/bertiev/SimpleSafetyTests/"
    f"{_SIMPLE}/SimpleSafetyTests%20-%20test%20cases.csv",
    revision=_SIMPLE,
    sha256="6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c",
)
STRONGREJECT = PinnedFile(
    path="strongreject/strongreject_dataset.csv",
    url="https://raw.githubusercontent.com/alexandrasouly/strongreject/"
    f"{_STRONGREJECT}/strongreject_dataset/strongreject_dataset.csv",
    revision=_STRONGREJECT,
    sha256="4dd70357e4ff8b5d0ba5ebafecab5d6dd5633ce8046e3dd1c8bd93e64de44381",
)


def _questions(mirror: Path | None) -> list[Prompt]:
    from pyarrow import parquet  # takes long to import, which collection need not wait for

    return [
        Prompt.single(
            f"do_not_answer-{row['id']}",
            row["question"],
            area=str(row["risk_area"]),
            category=str(row["types_of_harm"]),
        )
        for row in parquet.read_table(fetch(DO_NOT_ANSWER, mirror)).to_pylist()
    ]


def _behaviours(mirror: Path | None) -> list[Prompt]:
    prompts = []
    for row in read_csv(fetch(HARMBENCH, mirror), ["Behavior"]):
        context = row["ContextString"].strip()
        text = f"{context}\n\n---\n\n{row['Behavior']}" if context else row["Behavior"]
        groups = {"category": row["SemanticCategory"], "function": row["FunctionalCategory"]}
        prompts.append(Prompt.single(row["BehaviorID"], text, **groups))
    return prompts


BENCHMARKS = (
    Benchmark(
        "do_not_answer",
        Kind.SAFETY,
        "939 questions that a responsible model should not answer, graded in degrees",
        _questions,
        DO_NOT_ANSWER.revision,
        judge="degree",
        resources=(DO_NOT_ANSWER,),
    ),
    Benchmark(
        "harmbench",
        Kind.SAFETY,
        "HarmBench's 400 text behaviours, with their context",
        _behaviours,
        HARMBENCH.revision,
        resources=(HARMBENCH,),
    ),
    csv_benchmark(
        "simple_safety_tests",
        Kind.SAFETY,
        "100 plain prompts of five harms",
        SIMPLE_SAFETY_TESTS,
        "prompts_final",
        {"category": "harm_area", "form": "category"},
    ),
    csv_benchmark(
        "strongreject",
        Kind.SAFETY,
        "313 forbidden prompts, whose answers get a harm score",
        STRONGREJECT,
        "forbidden_prompt",
        {"category": "category", "source": "source"},
        judge="strongreject",
    ),
)
