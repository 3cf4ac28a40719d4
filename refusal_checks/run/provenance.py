"""Collect the manifest of a run: models, data, settings, software, hardware."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import psutil

from refusal_checks.benchmarks import Benchmark, digest, discover
from refusal_checks.core.redaction import strip_credentials
from refusal_checks.core.text import count
from refusal_checks.engines.vllm import PACKAGES
from refusal_checks.io import extensions
from refusal_checks.io.files import sha256
from refusal_checks.judges import template
from refusal_checks.models.identity import describe_model, model_identity
from refusal_checks.models.model_names import (
    Attached,
    Model,
    Served,
    model_remark,
    writes_no_text,
)
from refusal_checks.results.manifest import (
    Data,
    LabelsUsed,
    Manifest,
    ModelFacts,
    Models,
    Selection,
)
from refusal_checks.run.inputs import Inputs
from refusal_checks.run.named_models import NamedJudge
from refusal_checks.run.plan import Judges
from refusal_checks.run.prompt_loading import LoadedPrompts
from refusal_checks.trust.labels import HumanLabels
from refusal_checks.version import __version__


def make_manifest(
    inputs: Inputs,
    loaded: LoadedPrompts,
    judges: Judges,
    servers: Mapping[str, Any],
) -> Manifest:
    """Make the manifest of a prepared run.

    Args:
        servers: facts of attached servers, by role, then by URL and model.
    """
    spec = inputs.spec
    # Judges that reason may write more than the run file says.
    limits = {
        judge.name: judge.max_tokens
        for judge in chain.from_iterable(judges.values())
        if judge.max_tokens > spec.judge.max_tokens
    }
    return Manifest(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        candidate=inputs.candidate.name,
        title=spec.candidate.title,
        recorded_model=loaded.recording.model if loaded.recording else "",
        judge=", ".join(judge.name for judge in inputs.judges),
        models=Models(
            candidate=_model_facts(
                _with_served_name(inputs.candidate, servers.get("candidate", ()))
            ),
            judges={
                judge.name: _judge_facts(
                    judge,
                    _with_served_name(judge.model, servers.get("judge", ())),
                    limits,
                )
                for judge in inputs.judges
            },
        ),
        judge_prompts={
            name: {judge.name: judge.prompt_hash for judge in panel}
            for name, panel in judges.items()
        },
        data={name: _data(inputs.benchmarks[name], loaded) for name in loaded.plan},
        spec=spec.tables,
        thresholds={str(path): sha256(path) for path in spec.files},
        extensions={
            extension.origin: extension.sha256 for extension in extensions.load_all()
        },
        sampling=inputs.sampling.model_dump(mode="json"),
        usual_seed=spec.usual_seed,
        judge_thresholds=_thresholds(judges),
        build=_build(),
        human_labels=_human_labels(inputs.labels),
        store=str(inputs.store),
        versions=_versions(),
        git_commit=_git_commit(),
        gates=Selection(selected=len(inputs.gates), known=len(spec.gates)),
        hardware=(
            f"{platform.platform()}, {count(os.cpu_count() or 0, 'core')}, "
            f"{psutil.virtual_memory().total / 2**30:.1f} GiB of memory"
        ),
    )


def _with_served_name(model: Model, servers: Iterable[str]) -> Model:
    """The model, with the name its server reported if the user gave none.

    Args:
        servers: URL and name of each attached model in this role.
    """
    if not isinstance(model, Attached) or model.model:
        return model
    for server in servers:
        url, _, name = server.rpartition("#")
        if url == model.url:
            return replace(model, model=name)
    return model


def _model_facts(model: Model, **of_judge: Any) -> ModelFacts:
    return ModelFacts(
        **describe_model(model), fingerprint=model_identity(model), **of_judge
    )


def _judge_facts(
    judge: NamedJudge, model: Model, max_tokens: Mapping[str, int]
) -> ModelFacts:
    return _model_facts(
        model,
        template=judge.template or _picked_prompt(model),
        max_tokens=max_tokens.get(judge.name),
        remark=model_remark(model),
    )


def _picked_prompt(model: Model) -> str | None:
    """The package's judge prompt for a model's name; None if there is none."""
    if isinstance(model, Served) and not writes_no_text(model):
        return template.find_packaged(model.path)
    return template.find_packaged(model.model) if isinstance(model, Attached) else None


def _thresholds(judges: Judges) -> str:
    """The thresholds of judges that give probabilities; empty if there are none."""
    for judge in chain.from_iterable(judges.values()):
        if judge.gives_probabilities:
            return judge.thresholds.in_words
    return ""


def _human_labels(labels: HumanLabels | None) -> LabelsUsed | None:
    if not labels:
        return None
    return LabelsUsed(
        file=labels.path.name, drawn=labels.drawn, deleted=labels.deleted.drawn
    )


def _versions() -> dict[str, str]:
    """Versions of this package, of Python and of the installed libraries it uses."""
    versions = {"refusal-checks": __version__, "python": platform.python_version()}
    for package in ("numpy", "pytest", "pytest-xdist", *PACKAGES):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _data(benchmark: Benchmark, loaded: LoadedPrompts) -> Data:
    prompts = loaded.plan[benchmark.name]
    return Data(
        revision=benchmark.revision,
        sha256=digest(prompts),
        prompts=len(prompts),
        usual=loaded.usual.get(benchmark.name, 0),
        limit=benchmark.limit,
        max_answer_chars=benchmark.max_answer_chars,
        pinned=benchmark.is_pinned,
        own=benchmark.name not in discover(),
    )


def _build() -> str:
    """URL of the current CI job; empty outside CI."""
    variables = os.environ
    run = variables.get("GITHUB_RUN_ID")
    if run:
        server = variables.get("GITHUB_SERVER_URL", "")
        repository = variables.get("GITHUB_REPOSITORY", "")
        return f"{server}/{repository}/actions/runs/{run}"
    for name in ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"):
        if name in variables:
            return strip_credentials(variables[name])
    return ""


def _git_commit() -> str | None:
    command = ["git", "rev-parse", "HEAD"]  # the user's own git, wherever it is
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True
        )
        return done.stdout.strip()
    return None
