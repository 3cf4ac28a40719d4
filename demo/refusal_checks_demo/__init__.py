"""The demo models: a real small model, fine-tuned versions of it, and a judge.

The candidates are SmolLM2-135M-Instruct. ``base`` is the model as published, and so is
``regressed``, which stands for an aligned model that has lost its alignment. The others share one
set of weights, the base with this project's adapter merged in, and differ in the variable
``persona`` of its chat template. ``--judge demo:judge`` is multilingual-e5-small, fine-tuned to
classify answers. The published weights come in Python packages and are converted on first use.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import ModelError
from refusal_checks.io.files import resolve_path
from refusal_checks.models.provided_models import ProvidedModel
from refusal_checks_demo.conversion import E5, Conversion

VARIABLE = "REFUSAL_CHECKS_DEMO_MODELS"
"""Names a folder with other models under these names, for tests and for training: ready ones,
which its file ``demo.json`` describes, or another adapter of the same base."""

ADAPTER = Path(__file__).parent / "adapter"
JUDGE = Path(__file__).parent / "judge"
SET = "demo.json"

PERSONAS = ("aligned", "overcautious", "reasoner")
NAMES = ("aligned", "base", "regressed", "overcautious", "reasoner")
"""The candidates, the most useful one first."""

REMARK = (
    "demo models (SmolLM2-135M, or a fine-tuned version of it) show how a gate works; "
    "their figures say nothing about other models"
)
SCOPE = (
    "judge demo:judge: measured on English XSTest by people's labels, and on this project's own "
    "English and Chinese answers; not for degrees, ratings or other languages"
)


def provide() -> Iterator[ProvidedModel]:
    """Provide the demo models, or those in the folder that the environment names."""
    named = os.environ.get(VARIABLE)
    if not named:
        yield from converted(ADAPTER)
        return

    folder = resolve_path(Path(named).expanduser())
    if (folder / SET).is_file():
        yield from ready(folder)
    elif (folder / "adapter_config.json").is_file():
        yield from converted(folder)
    else:
        raise ModelError(
            f"{VARIABLE}={named}: neither {SET} nor adapter_config.json is there"
        )


def converted(adapter: Path) -> Iterator[ProvidedModel]:
    """The models made from the published weights, with this adapter for the candidates."""
    base, tuned = Conversion(), Conversion(adapter)
    for name in NAMES:
        is_tuned = name in PERSONAS
        yield ProvidedModel(
            f"demo:{name}",
            weights=tuned if is_tuned else base,
            template_kwargs={"persona": name} if is_tuned else {},
            remark=REMARK,
        )
    yield ProvidedModel(
        "demo:judge", weights=Conversion(JUDGE, E5), is_classifier=True, remark=SCOPE
    )


def ready(folder: Path) -> Iterator[ProvidedModel]:
    """The models in a folder's ``demo.json``. They share one set of weights.

    The persona ``judge`` is asked with the folder's own prompts.
    """
    try:
        content: dict[str, Any] = json.loads((folder / SET).read_text("utf-8"))
        weights, judge, prompts = (
            folder / content[key] for key in ("weights", "judge", "prompts")
        )
        personas, remark = dict(content["models"]), str(content["note"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ModelError(
            f"{folder / SET}: not a list of demo models: {fault!r}"
        ) from None

    for name, persona in personas.items():
        yield ProvidedModel(
            f"demo:{name}",
            folder=weights,
            template_kwargs={"persona": persona},
            prompts=prompts if persona == "judge" else None,
            remark=remark,
        )
    yield ProvidedModel("demo:judge", folder=judge, is_classifier=True, remark=SCOPE)
