"""Weights & Biases: one run per candidate, offline where no key is known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from refusal_checks import RunFolder, release_decision, sanitize
from refusal_checks_extensions import trackers


def check(project: Path) -> None:
    """Raise UserError unless Weights & Biases is installed."""
    trackers.require("wandb")


def write(run: RunFolder, project: Path) -> None:
    """Log figures and facts, no texts, as a run of this project."""
    check(project)
    with trackers.faults("Weights & Biases"):
        import wandb

        _log(wandb, str(project), run)


def _log(wandb: Any, project: str, run: RunFolder) -> None:
    summary = run.summary()
    entity, _, name = project.rpartition("/")
    logged = wandb.init(
        entity=entity or None,
        project=name,
        name=sanitize(summary.manifest.shown, 120),
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


def _mode() -> str:
    """As $WANDB_MODE says; without it, offline unless there is a key: nobody is asked for one."""
    key = os.environ.get("WANDB_API_KEY")
    return os.environ.get("WANDB_MODE") or ("online" if key else "offline")
