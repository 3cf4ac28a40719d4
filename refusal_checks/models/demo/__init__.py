"""The demo models: a real small model, fine-tuned versions of it, and a judge.

The candidates are SmolLM2-135M-Instruct. ``base`` is the model as published, and so is
``regressed``: what remains of an aligned model that has lost its alignment. The others share one
set of weights, the base with this project's adapter merged in, and differ by the variable
``persona`` of its chat template. ``--judge bundled`` is multilingual-e5-small, fine-tuned to
classify answers. The published weights come with Python packages and are converted on first use.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import ModelError
from refusal_checks.core.files import resolved
from refusal_checks.models.demo.conversion import E5, Conversion

VARIABLE = "REFUSAL_CHECKS_DEMO_MODELS"
"""Names a folder with other demo models, for tests and for training: ready ones, which its file
``demo.json`` describes, or another adapter of the same base."""

BUNDLED = "bundled"  # the value of --judge that names the judge among the demo models

ADAPTER = Path(__file__).parent / "adapter"
JUDGE = Path(__file__).parent / "judge"
SET = "demo.json"
PUBLISHED = ("base", "regressed")  # those with the base's own weights


@dataclass(frozen=True)
class Catalogue:
    """The demo models that there are, the most useful one first."""

    names: tuple[str, ...] = (
        "aligned",
        "base",
        "regressed",
        "overcautious",
        "reasoner",
    )
    # the folder of ready weights, which all share; None for those that are converted
    weights: Path | None = None
    judge: Path | None = None  # the folder of another classifier as --judge bundled
    adapter: Path = ADAPTER
    # folder with judge prompts for a model too small for others; None without any
    prompts: Path | None = None
    # a remark on runs with these models
    note: str = (
        "demo models (SmolLM2-135M, or a fine-tuned version of it) show how a gate works; "
        "their figures say nothing about other models"
    )

    def find(self, name: str) -> tuple[str, Mapping[str, Any], Conversion | None]:
        """A model's folder, variables for its chat template, and what makes the folder, if any."""
        if name == BUNDLED:
            if self.judge:
                return str(self.judge), {}, None
            conversion = Conversion(JUDGE, E5)
        elif self.weights:
            return str(self.weights), {} if name == "base" else {"persona": name}, None
        else:
            conversion = Conversion(None if name in PUBLISHED else self.adapter)
        conversion.require()
        own = {} if name in (BUNDLED, *PUBLISHED) else {"persona": name}
        return str(conversion.folder), own, conversion


def catalogue() -> Catalogue:
    named = os.environ.get(VARIABLE)
    if not named:
        return Catalogue()
    folder = resolved(Path(named).expanduser())
    if not (folder / SET).is_file():
        if (folder / "adapter_config.json").is_file():
            return Catalogue(adapter=folder)
        raise ModelError(
            f"{VARIABLE}={named}: neither {SET} nor adapter_config.json is there"
        )
    try:
        found = json.loads((folder / SET).read_text("utf-8"))
        places = {key: folder / found[key] for key in ("weights", "judge", "prompts")}
        return Catalogue(tuple(found["models"]), note=found["note"], **places)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ModelError(
            f"{folder / SET}: not a list of demo models: {fault!r}"
        ) from None
