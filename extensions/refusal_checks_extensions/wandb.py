"""Weights & Biases: one run per candidate, offline where no key is known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from refusal_checks import RunFolder, clean, release_decision
from refusal_checks_extensions import trackers

VARIABLE = "REFUSAL_CHECKS_WANDB"
HELP = "log figures and facts, no texts, as a run of this Weights & Biases project"
METAVAR = "PROJECT"


def check() -> None:
    """Raise UserError unless Weights & Biases is installed."""
    trackers.require("wandb")


def write(run: RunFolder, path: Path) -> None:
    """Log the run. ``path`` is the project's name."""
    check()
    with trackers.faults("Weights & Biases"):
        import wandb

        _log(wandb, str(path), run)


def _log(wandb: Any, project: str, run: RunFolder) -> None:
    summary = run.summary()
    entity, _, name = project.rpartition("/")
    logged = wandb.init(
        entity=entity or None,
        project=name,
        name=clean(summary.manifest.shown, 120),
        job_type="refusal-checks",
        config=trackers.facts(summary, run),
        mode=_mode(),
        # The console shows texts; code, machine and git state are no part of a result.
        settings={
            "console": "off",
            "silent": True,
            "save_code": False,
            "disable_git": True,
            "x_disable_stats": True,
            "x_disable_meta": True,
        },
        reinit="create_new",
    )
    logged.log(trackers.figures(summary))
    logged.finish(exit_code=0 if release_decision(summary).may_ship else 1)


def written() -> str:
    """What became of the run."""
    if _mode() == "offline":
        return "kept offline: send it with `wandb sync`"
    return "passed on"


def _mode() -> str:
    """As $WANDB_MODE says; without it, offline unless there is a key: nobody is asked for one."""
    key = os.environ.get("WANDB_API_KEY")
    return os.environ.get("WANDB_MODE") or ("online" if key else "offline")
