"""Provenance: what was run, with what, on what."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psutil

from refusal_checks import __version__
from refusal_checks.benchmarks import Benchmark, attacks, digest
from refusal_checks.benchmarks.attacks.base import SEED
from refusal_checks.core import extensions
from refusal_checks.engines import kinds
from refusal_checks.judges import cascade
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.spec import Attached, Model, Served, describe
from refusal_checks.results.manifest import (
    CascadeUsed,
    Data,
    Effort,
    EnginesUsed,
    Hardware,
    Manifest,
    ModelFacts,
    Models,
)
from refusal_checks.run.assembly import Parts, prompts_of
from refusal_checks.run.evaluate import Pending, Plan
from refusal_checks.run.options.command_line import Options

_PACKAGES = ("numpy", "pytest", "pytest-xdist")


def manifest(options: Options, parts: Parts) -> Manifest:
    """The manifest of a run that is about to start."""
    plan, judges, known = parts.plan, parts.judges, options.questions.benchmarks
    answering, judging = options.answering, options.judging
    # One that stands for all attacks on another has judges, and no prompts of its own.
    names = [*plan, *(name for name in judges if name in known and name not in plan)]
    alone = tuple(name for name, panel in judges.items() if any(judge.reasoned for judge in panel))
    formed = next(filter(None, map(cascade.of, judges.values())), None)
    engines = [package for name in kinds.names() for package in kinds.get(name).packages]
    packages = dict.fromkeys((*engines, *_PACKAGES))
    return Manifest(
        started=_now(),
        candidate=answering.model.name,
        title=answering.title,
        judge=", ".join(judge.name for judge in judging.judges),
        models=Models(
            candidate=ModelFacts(**describe(answering.model)),
            judges={
                judge.name: ModelFacts(**describe(judge.model), template=judge.template)
                for judge in judging.judges
            },
        ),
        judge_prompts={
            name: {judge.name: judge.prompt_hash for judge in panel}
            for name, panel in judges.items()
        },
        data={name: _data(known[name], parts) for name in names},
        thresholds={
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in options.threshold_files
        },
        extensions={one.origin: one.sha256 for one in extensions.known()},
        sampling=answering.sampling.model_dump(),
        multiple_choice=options.questions.multiple_choice.model_dump(mode="json"),
        judge_sampling=judging.sampling.model_dump(),
        **({"verdicts_alone": alone} if alone else {}),
        **({"cascade": _cascade(formed)} if formed else {}),
        confidence=options.rules.level,
        versions={"refusal-checks": __version__, "python": platform.python_version()}
        | {name: version for name in packages if (version := _version(name))},
        git_commit=_git_commit(),
        hardware=Hardware(
            platform=platform.platform(),
            cores=os.cpu_count(),
            memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        ),
    )


def _cascade(formed: cascade.Cascade) -> CascadeUsed:
    names = {"first": formed.first.name, "second": formed.second.name}
    return CascadeUsed(**names, **formed.rule.model_dump())


def _data(benchmark: Benchmark, parts: Parts) -> Data:
    prompts = prompts_of(benchmark, parts.plan)
    found = Data(
        revision=benchmark.revision,
        sha256=digest(prompts),
        prompts=len({prompt.id for prompt in prompts}),
        usual=max(parts.usual.get(name, 0) for name in benchmark.under or (benchmark.name,)),
        limit=benchmark.limit,
        max_answer_chars=benchmark.max_answer_chars,
        pinned=benchmark.is_pinned,
    )
    if not benchmark.attack:
        return found
    lost = parts.left_out.get(benchmark.name, 0)
    recorded = attacks.recorded.known(benchmark.attack)
    attack = {"attack": benchmark.attack, "attack_seed": SEED, "left_out": lost}
    attack["attack_sha256"] = recorded.sha256 if recorded else ""
    return found.model_validate(found.model_dump() | attack)


def effort(
    found: Manifest,
    plan: Plan,
    candidate: Candidate,
    todos: Sequence[Pending],
    models: Iterable[Model],
) -> Manifest:
    """The manifest of a run that starts, with the work that is left to do.

    Args:
        todos: of the judges, then of each repetition of their verdicts.
        models: that the run asks.
    """
    asked = list(models)
    prompts = [prompt for benchmark in plan.values() for prompt in benchmark]
    keys = {key for prompt in prompts for key in candidate.keys(prompt)}
    missing = todos[0].answers
    return found.extended(
        engines=EnginesUsed(
            started=_names(model for model in asked if isinstance(model, Served)),
            attached=_names(model for model in asked if isinstance(model, Attached)),
            kinds=tuple(dict.fromkeys(m.engine for m in asked if isinstance(m, Served))),
        ),
        asked=Effort(
            answers=missing,
            verdicts=sum(todo.verdicts for todo in todos),
            reused=len(keys) - missing,
            judges=tuple(sorted(frozenset[str]().union(*(todo.judges for todo in todos)))),
        ),
    )


def _names(models: Iterable[Model]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model.name for model in models))


def engines_ready(found: Manifest, seconds: float) -> Manifest:
    """The manifest after the engines of one more turn became ready in so many seconds."""
    used = found.engines or EnginesUsed()
    ready = (*used.ready_s, round(seconds, 1))
    return found.extended(engines=used.model_copy(update={"ready_s": ready}))


def finished(found: Manifest, account: Mapping[str, Any]) -> Manifest:
    """The manifest of a run that has ended.

    Args:
        account: see ``Servers.account``.
    """
    return found.extended(**account, finished=_now())


def facts(found: Manifest) -> dict[str, str]:
    """Where a run's figures come from, for JUnit properties."""
    properties = {"candidate": found.candidate, "judge": found.judge}
    for name, data in found.data.items():
        unpinned = " (unpinned rows)" if data.pinned is False else ""
        properties[f"data_revision/{name}"] = f"{data.revision or ''}{unpinned}"
        properties[f"prompts/{name}"] = str(data.prompts)
        if data.is_partial:
            properties[f"part/{name}"] = f"only {data.prompts} of {data.usual} prompts"
        properties[f"judge_prompt_sha256/{name}"] = ", ".join(found.judge_prompts[name].values())
    return properties


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 (the user's own git, wherever it is)
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
