"""MLflow: one run per candidate, in the tracking store that MLflow's own variables name."""

from __future__ import annotations

import os
import re
import time
from itertools import islice
from pathlib import Path
from typing import Any

from refusal_checks import RunFolder, release_decision, sanitize
from refusal_checks_extensions import trackers

_ODD = re.compile(r"[^\w\-./ ]", re.ASCII)
"""What MLflow refuses in a metric's name."""

_AT_ONCE = 500
"""Metrics in one request; MLflow takes 1,000."""


def check(experiment: Path) -> None:
    """Raise UserError unless MLflow is installed."""
    trackers.require("mlflow")


def write(run: RunFolder, experiment: Path) -> None:
    """Log figures and facts, no texts, as a run of this experiment ($MLFLOW_TRACKING_URI)."""
    check(experiment)
    # A server that is down would otherwise be asked for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    with trackers.faults("MLflow"):
        from mlflow import MlflowClient

        client = MlflowClient()
        name = str(experiment)
        known = client.get_experiment_by_name(name)
        number = known.experiment_id if known else client.create_experiment(name)
        _log(client, number, run)


def _log(client: Any, experiment: str, run: RunFolder) -> None:
    from mlflow.entities import Metric

    summary = run.summary()
    now = int(time.time() * 1000)
    facts = trackers.facts(summary, run)
    made = client.create_run(
        experiment, run_name=sanitize(summary.manifest.shown, 200) or None, tags=facts
    )
    number = made.info.run_id
    metrics = iter(
        [
            Metric(_named(name), value, now, 0)
            for name, value in trackers.figures(summary).items()
        ]
    )
    while some := list(islice(metrics, _AT_ONCE)):
        client.log_batch(number, metrics=some)
    client.set_terminated(
        number, "FINISHED" if release_decision(summary).may_ship else "FAILED"
    )


def _named(metric: str) -> str:
    """A name that MLflow takes; groups may be called anything."""
    return _ODD.sub(lambda odd: f"_{ord(odd[0]):x}", metric)[:250]
