"""Measures the toy models: ``python -m tools.toy_model.evaluate``.

Answers come from transformers in this process (greedy; the bundled prompts are sampled), or with
``--url`` from a running vLLM server. XSTest and CHiSafetyBench are measured where
``REFUSAL_CHECKS_DATA`` has them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.toy_model import MODEL_DIR
from tools.toy_model.generation import Speak, local, served
from tools.toy_model.measure import (
    Figure,
    candidate_figures,
    judge_figures,
    phrasing_figures,
    smoke_figures,
    xstest_figures,
)
from tools.toy_model.measure_tasks import choice_figures, level_figures, thinker_figures

PARTS = (
    "judge",
    "phrasing",
    "candidate",
    "smoke",
    "level",
    "choice",
    "thinker",
    "xstest",
)


def measure(speak: Speak, parts: Sequence[str]) -> list[Figure]:
    """All figures of the named parts, in order."""
    data = os.environ.get("REFUSAL_CHECKS_DATA")
    chisafety = Path(data) / "chisafetybench" if data else None
    known: dict[str, Callable[[], list[Figure]]] = {
        "judge": lambda: judge_figures(speak),
        "phrasing": lambda: phrasing_figures(speak),
        "candidate": lambda: candidate_figures(speak),
        "smoke": lambda: smoke_figures(speak),
        "level": lambda: level_figures(speak),
        "choice": lambda: choice_figures(speak, chisafety),
        "thinker": lambda: thinker_figures(speak),
        "xstest": lambda: xstest_figures(speak, Path(data) / "xstest") if data else [],
    }
    return [figure for part in PARTS if part in parts for figure in known[part]()]


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [
        f"| {figure.name} | {figure.value:.3f} | {figure.n} |" for figure in figures
    ]
    return "\n".join(["| figure | value | n |", "|---|---|---|", *rows])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the toy models.")
    parser.add_argument(
        "--model", type=Path, default=MODEL_DIR, help="folder with the weights"
    )
    parser.add_argument(
        "--url", help="of a vLLM server, ending in /v1, instead of transformers"
    )
    parser.add_argument(
        "--name", default="demo", help="the model's name on that server"
    )
    parser.add_argument(
        "--free", action="store_true", help="send the server no JSON schema"
    )
    parser.add_argument("--json", type=Path, default=Path("demo-figures.json"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    if arguments.url:
        speak = served(arguments.url, arguments.name, schema=not arguments.free)
    else:
        speak = local(arguments.model)
    figures = measure(speak, arguments.only)
    print(table(figures))
    rows = [dataclasses.asdict(figure) for figure in figures]
    arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
