"""Provenance: what was run, with what, on what."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from refusal_checks import __version__
from refusal_checks.benchmarks import Benchmark, attacks, digest
from refusal_checks.benchmarks.attacks.attack import SEED
from refusal_checks.core import extensions
from refusal_checks.core.files import sha256
from refusal_checks.core.redaction import without_credentials
from refusal_checks.core.store import Store
from refusal_checks.engines import kinds
from refusal_checks.evaluation.assembly import Parts
from refusal_checks.evaluation.config import RunConfig
from refusal_checks.evaluation.loading import prompts_of
from refusal_checks.evaluation.planning import Pending
from refusal_checks.evaluation.verification import Verified
from refusal_checks.judges import cascade
from refusal_checks.models.identity import describe
from refusal_checks.models.names import Attached, Model, Served
from refusal_checks.results.manifest import (
    CascadeUsed,
    Data,
    Effort,
    EnginesUsed,
    Hardware,
    LabelsUsed,
    Manifest,
    ModelFacts,
    Models,
)


def manifest(config: RunConfig, parts: Parts, store: Path) -> Manifest:
    calibration, labels = config.trust.calibration, config.trust.labels
    plan, judges, known = parts.plan, parts.judges, config.benchmarks
    answering, judging = config.answering, config.judging
    # One that stands for all attacks on another has judges, and no prompts of its own.
    names = [*plan, *(name for name in judges if name in known and name not in plan)]
    alone = tuple(
        name for name, panel in judges.items() if any(judge.reasoned for judge in panel)
    )
    used = None
    if formed := next(filter(None, map(cascade.of, judges.values())), None):
        ends = {"first": formed.first.name, "second": formed.second.name}
        used = CascadeUsed(**ends, **formed.rule.model_dump())
    # Judges that reason may write more than others; what is the same for all is said once.
    most = {
        one.name: one.max_tokens
        for panel in judges.values()
        for one in panel
        if one.max_tokens
    }
    usual = min(most.values(), default=judging.sampling.max_tokens)
    own_tokens = {
        name: {"max_tokens": number} for name, number in most.items() if number > usual
    }
    engines = [
        package for name in kinds.discover() for package in kinds.get(name).packages
    ]
    versions = {"refusal-checks": __version__, "python": platform.python_version()}
    for package in (*engines, "numpy", "pytest", "pytest-xdist"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return Manifest(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        candidate=answering.model.name,
        title=answering.title,
        judge=", ".join(judge.name for judge in judging.judges),
        models=Models(
            candidate=ModelFacts(**describe(answering.model)),
            judges={
                judge.name: ModelFacts(
                    **describe(judge.model),
                    template=judge.template,
                    **own_tokens.get(judge.name, {}),
                )
                for judge in judging.judges
            },
        ),
        judge_prompts={
            name: {judge.name: judge.prompt_hash for judge in panel}
            for name, panel in judges.items()
        },
        data={name: _data(known[name], parts) for name in names},
        spec=config.written,
        thresholds={str(path): sha256(path) for path in config.files},
        extensions={one.origin: one.sha256 for one in extensions.known()},
        sampling=answering.sampling.model_dump(mode="json"),
        multiple_choice=config.multiple_choice.model_dump(mode="json"),
        judge_sampling=judging.sampling.model_dump(mode="json") | {"max_tokens": usual},
        verdicts_alone=alone,
        cascade=used,
        capabilities=parts.engines.account().get("capabilities", {}),
        build=_build(),
        calibration=calibration.model_dump(mode="json") if calibration else None,
        human_labels=LabelsUsed(
            file=labels.name,
            labels=len(labels.rows),
            draws=tuple(map(str, labels.draws)),
        )
        if labels
        else None,
        store=str(store),
        confidence=config.rules.level,
        versions=versions,
        git_commit=_git_commit(),
        hardware=Hardware(
            platform=platform.platform(),
            cores=os.cpu_count(),
            memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        ),
    )


def _data(benchmark: Benchmark, parts: Parts) -> Data:
    prompts = prompts_of(benchmark, parts.plan)
    attack: dict[str, Any] = {}
    if benchmark.attack:
        recorded = attacks.recorded.known(benchmark.attack)
        attack = {
            "attack": benchmark.attack,
            "attack_seed": SEED,
            "left_out": parts.left_out.get(benchmark.name, 0),
            "attack_sha256": recorded.sha256 if recorded else "",
        }
    return Data(
        revision=benchmark.revision,
        sha256=digest(prompts),
        prompts=len({prompt.id for prompt in prompts}),
        usual=max(
            parts.usual.get(name, 0) for name in benchmark.under or (benchmark.name,)
        ),
        limit=benchmark.limit,
        max_answer_chars=benchmark.max_answer_chars,
        pinned=benchmark.is_pinned,
        **attack,
    )


def effort(
    found: Manifest,
    parts: Parts,
    todo: Pending,
    models: Sequence[Model],
    store: Store,
    verified: Verified,
) -> Manifest:
    """The manifest of a run that starts, with the work left for its models."""
    prompts = [prompt for benchmark in parts.plan.values() for prompt in benchmark]
    keys = {key for prompt in prompts for key in parts.candidate.keys(prompt)}
    missing = todo.answers
    written = store.written(keys)
    dates = [
        datetime.fromtimestamp(time, UTC).date().isoformat() for time in written or ()
    ]
    served = [model for model in models if isinstance(model, Served)]
    attached = [model.name for model in models if isinstance(model, Attached)]
    return found.extended(
        engines=EnginesUsed(
            started=tuple(dict.fromkeys(model.name for model in served)),
            attached=tuple(dict.fromkeys(attached)),
            kinds=tuple(dict.fromkeys(model.engine for model in served)),
        ),
        asked=Effort(
            answers=missing,
            verdicts=todo.verdicts,
            reused=len(keys) - missing,
            **dict(zip(("stored_from", "stored_until"), dates, strict=False)),
            verified=verified.prompts,
            changed=verified.changed,
            judges=tuple(sorted(todo.judges)),
        ),
    )


def _build() -> str:
    """The address of the CI job that this is; empty elsewhere."""
    known = os.environ
    if run := known.get("GITHUB_RUN_ID"):
        place = known.get("GITHUB_SERVER_URL", ""), known.get("GITHUB_REPOSITORY", "")
        return f"{'/'.join(place)}/actions/runs/{run}"
    names = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
    return without_credentials(
        next((known[name] for name in names if name in known), "")
    )


def _git_commit() -> str | None:
    command = ["git", "rev-parse", "HEAD"]  # the user's own git, wherever it is
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True
        )
        return done.stdout.strip()
    return None
