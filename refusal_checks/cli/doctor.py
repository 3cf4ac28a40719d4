"""``refusal-checks doctor``: what a gate run checks before it starts, all of it at once."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import Candidate, Judges, Keys, Root, echo, overrides
from refusal_checks.config import toml_file
from refusal_checks.config.layers import Layer
from refusal_checks.config.run_spec import RunSpec, usual_file
from refusal_checks.core.errors import ModelError, RefusalChecksError, reason
from refusal_checks.core.text import clean, count
from refusal_checks.engines import placement, vllm
from refusal_checks.gates import power
from refusal_checks.io.store import Store
from refusal_checks.models.identity import describe_model
from refusal_checks.models.model_names import Model, Served
from refusal_checks.run.inputs import choose_folders, read_inputs

EXIT_FAULT = 4


def add(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="The same as --candidate.")
    ] = None,
    candidate: Candidate = None,
    judge: Judges = None,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A run file, as in a gate run (repeatable)."),
    ] = None,
    keys: Keys = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Mirror of public data.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help="Stored answers.")
    ] = None,
    *,
    runs: Root,
) -> None:
    """Check this machine and all that a gate run of MODEL needs; starts no engine.

    These are the run's own checks, and each line begins with OK or FAIL. Exits with 4 if any fails.
    """
    for name, fact in _facts():
        echo(f"OK    {name:<10}  {fact}")
    layers = overrides(
        keys, candidate=candidate or model, judge=judge, data=data, store=store
    )
    usual = [usual_file(Path(), layers)]
    is_fine = True
    for name, check in _checks(thresholds or usual, layers, runs):
        try:
            lines = check()
        except (RefusalChecksError, OSError) as fault:
            is_fine = False
            echo(f"FAIL  {name:<10}  {clean(reason(fault), 2000)}")
        else:
            for line in lines:
                echo(f"OK    {name:<10}  {clean(line, 1000)}")
    if not is_fine:
        raise typer.Exit(EXIT_FAULT)


def _facts() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "vLLM", vllm.version() or "not installed"
    if vllm.runs_on_cpu():
        dtype = vllm.cpu_dtype()
        has = "has" if dtype == "bfloat16" else "lacks"
        yield "device", f"{len(placement.cpu().ids)} CPU cores"
        yield "data type", f"{dtype}: the processor {has} instructions for bfloat16"
    else:
        gpus = placement.gpus()
        is_gpu = gpus.kind == "gpu"
        yield "device", f"GPU {', '.join(gpus.ids)}" if is_gpu else "no GPU"
        yield "data type", "the model's own, as its config.json says"
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    there = next(place for place in (home, *home.parents) if place.exists())
    free = shutil.disk_usage(there).free / 2**30
    yield "disk", f"{free:.0f} GiB free at {there}, for downloaded models"


Check = Callable[[], Sequence[str]]
"""A check returns what it found, or raises what is wrong."""


def _checks(
    files: Sequence[Path], layers: Sequence[Layer], runs: Path
) -> Iterator[tuple[str, Check]]:
    """The checks of a run, in its order, by name."""
    # HTTP, which the help need not import
    from refusal_checks.run import (
        baseline_scores,
        connections,
        prompt_loading,
        run_session,
    )

    def refuse() -> Sequence[str]:
        raise fault

    try:
        spec = RunSpec.read(*map(toml_file.find, files), overrides=layers)
        if not spec.candidate.model:
            yield "run", lambda: ["name MODEL and --judge JUDGE to check a run, too"]
            return
        inputs = read_inputs(spec, choose_folders(spec, runs=runs))
    except RefusalChecksError as error:
        fault = error
        yield "run", refuse
        return
    said: list[str] = []
    served = [model for model in inputs.models if isinstance(model, Served)]

    def engine() -> Sequence[str]:
        connections.require_loadable(inputs, said.append)
        for model in served:
            if model.weights and not model.weights.is_ready():
                model.weights.check()
        if served and not vllm.runs_on_cpu():
            require_compiler()
        return said or ["everything its models need is here"]

    def baseline() -> Sequence[str]:
        names = ", ".join(baseline_scores.read_baseline(inputs))
        return [names or "none"]

    def store() -> Sequence[str]:
        if not inputs.store.is_file():
            return [f"{inputs.store}: none yet"]
        with Store(inputs.store) as opened:
            answers = opened.contents().completions
        return [f"{inputs.store}: {count(answers, 'answer')}"]

    def candidate() -> Sequence[str]:
        connections.connect_candidate(inputs, servers)
        return [inputs.candidate.name]

    def judge() -> Sequence[str]:
        connections.build_judges(inputs, servers, said.append)
        lines = []
        for judge in inputs.judges:
            lines.append(judge.name)
            if _is_same(judge.model, inputs.candidate):
                lines.append(
                    f"{judge.name} is the candidate itself: name another judge, or the run ends "
                    "with 7, not proven (judge-is-candidate)"
                )
        return lines

    def data() -> Sequence[str]:
        plan = prompt_loading.load_prompts(inputs, said.append).plan
        sizes = [f"{name}: {len(prompts)} prompts" for name, prompts in plan.items()]
        weakest = power.describe_weakest(inputs.gates, plan, spec.settings.confidence)
        return [*sizes, weakest] if weakest else sizes

    servers = run_session.make_engines(inputs, inputs.store.parent, echo)
    yield "baseline", baseline
    yield "store", store
    yield "engine", engine
    yield "candidate", candidate
    yield "judge", judge
    yield "data", data


def _is_same(judge: Model, candidate: Model) -> bool:
    """True if a judge has the candidate's weights and adapter."""
    first, second = describe_model(judge), describe_model(candidate)
    return all(first.get(key) == second.get(key) for key in ("version", "adapter"))


def require_compiler() -> None:
    """Refuse a machine without what Triton compiles its GPU code with."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    compilers = (os.environ.get("CC") or "gcc", "cc", "clang")
    missing = []
    if not headers.is_file():
        missing.append(f"{headers} (python3-dev on Debian, python3-devel on RHEL)")
    if not any(map(shutil.which, compilers)):
        missing.append("a C compiler (gcc)")
    if missing:
        raise ModelError(
            f"install {' and '.join(missing)}: vLLM compiles its GPU code when it starts"
        )
