"""Toy weights for tests: four million parameters, trained from scratch, that answer in no time.

``use`` makes every ``demo:`` name mean them, in this process and in those that it starts.
"""

import json
import os
from pathlib import Path

from refusal_checks_demo import VARIABLE as VARIABLE

FOLDER = Path(__file__).parent

MODEL_DIR = FOLDER / "weights"
"""The folder that engines load: one set of weights for all personas."""

JUDGE = FOLDER / "judge"
"""The settings, without weights, of what the name ``demo:judge`` means."""

PROMPTS = FOLDER / "prompts"
"""The judge prompts of ``demo:writer``, for servers of the same weights."""

PERSONAS: tuple[str, ...] = tuple(
    json.loads((FOLDER / "demo.json").read_text())["models"].values()
)
"""Values of the chat template's variable ``persona``; the first is the default."""


def use() -> None:
    """Let ``demo:`` names mean the toy."""
    os.environ[VARIABLE] = str(FOLDER)
