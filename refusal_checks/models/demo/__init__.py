"""Demo models: toy weights, trained from scratch, to try and test a whole run anywhere."""

from __future__ import annotations

from pathlib import Path

MODEL_DIR = Path(__file__).parent / "model"
"""The folder that engines load: one set of weights for all personas."""

PERSONAS = ("aligned", "regressed", "overcautious", "reasoner", "deliberator", "judge")
"""Values of the chat template's variable ``persona``; the first is the default."""
