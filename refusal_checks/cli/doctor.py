"""``refusal-checks doctor``: everything that a gate run checks before it starts, at once."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import Candidate, Judges, Keys, Root, echo, overrides
from refusal_checks.config import toml_file
from refusal_checks.config.run_spec import RunSpec, usual_file
from refusal_checks.core.errors import ModelError, RefusalChecksError, reason
from refusal_checks.core.text import count, sanitize
from refusal_checks.engines import placement, vllm
from refusal_checks.engines.servers import Servers
from refusal_checks.gates import power
from refusal_checks.io.store import Store
from refusal_checks.models.identity import describe_model
from refusal_checks.models.model_names import Model, Served
from refusal_checks.run import baseline_scores, connections
from refusal_checks.run.inputs import Inputs, choose_folders, read_inputs
from refusal_checks.run.prompt_loading import load_prompts
from refusal_checks.run.run_session import make_engines

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
    """Check this machine and everything that a gate run of MODEL needs, without starting engines.

    Each line begins with OK or FAIL. Exits with 4 if a check fails.
    """
    for name, fact in _facts():
        echo(f"OK    {name:<10}  {fact}")
    layers = overrides(
        keys, candidate=candidate or model, judge=judge, data=data, store=store
    )
    inputs = None
    try:
        files = thresholds or [usual_file(Path(), layers)]
        spec = RunSpec.read(*map(toml_file.find, files), overrides=layers)
        if spec.candidate.model:
            inputs = read_inputs(spec, choose_folders(spec, runs=runs))
    except RefusalChecksError as fault:
        _print_fault("run", fault)
        raise typer.Exit(EXIT_FAULT) from None
    if inputs is None:
        _print_lines("run", ["name MODEL and --judge JUDGE to check a run, too"])
        return
    servers = make_engines(inputs, inputs.store.parent, echo)
    is_fine = True
    # One call says all that is wrong, so a check that fails ends no other.
    for name, check in CHECKS.items():
        try:
            _print_lines(name, check(inputs, servers))
        except (RefusalChecksError, OSError) as fault:
            is_fine = False
            _print_fault(name, fault)
    if not is_fine:
        raise typer.Exit(EXIT_FAULT)


def _print_lines(name: str, lines: Iterable[str]) -> None:
    for line in lines:
        echo(f"OK    {name:<10}  {sanitize(line, 1000)}")


def _print_fault(name: str, fault: Exception) -> None:
    echo(f"FAIL  {name:<10}  {sanitize(reason(fault), 2000)}")


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


def check_baseline(inputs: Inputs, servers: Servers) -> list[str]:
    return [", ".join(baseline_scores.read_baseline(inputs)) or "none"]


def check_store(inputs: Inputs, servers: Servers) -> list[str]:
    if not inputs.store.is_file():
        return [f"{inputs.store}: none yet"]
    with Store(inputs.store) as store:
        answers = store.count_completions()
    return [f"{inputs.store}: {count(answers, 'answer')}"]


def check_engine(inputs: Inputs, servers: Servers) -> list[str]:
    """Check programs, files and templates of the models that engines load."""
    notes: list[str] = []
    connections.require_loadable(inputs, notes.append)
    served = [model for model in inputs.models if isinstance(model, Served)]
    for model in served:
        if model.weights and not model.weights.is_ready():
            model.weights.check()
    if served and not vllm.runs_on_cpu():
        require_compiler()
    return notes or ["everything its models need is here"]


def check_candidate(inputs: Inputs, servers: Servers) -> list[str]:
    connections.connect_candidate(inputs, servers)
    return [inputs.candidate.name]


def check_judge(inputs: Inputs, servers: Servers) -> list[str]:
    lines: list[str] = []
    connections.build_judges(inputs, servers, lines.append)
    for judge in inputs.judges:
        lines.append(judge.name)
        if _is_same(judge.model, inputs.candidate):
            lines.append(
                f"{judge.name} is the candidate itself: name another judge, or the run ends "
                "with 7, not proven (judge-is-candidate)"
            )
    return lines


def check_data(inputs: Inputs, servers: Servers) -> list[str]:
    lines: list[str] = []
    plan = load_prompts(inputs, lines.append).plan
    for name, prompts in plan.items():
        lines.append(f"{name}: {len(prompts)} prompts")
    weakest = power.describe_weakest(
        inputs.gates, plan, inputs.spec.settings.confidence
    )
    return [*lines, weakest] if weakest else lines


CHECKS: dict[str, Callable[[Inputs, Servers], list[str]]] = {
    "baseline": check_baseline,
    "store": check_store,
    "engine": check_engine,
    "candidate": check_candidate,
    "judge": check_judge,
    "data": check_data,
}
"""The checks of a run, in its order. Each returns what it found, or raises what is wrong."""


def _is_same(judge: Model, candidate: Model) -> bool:
    """True if a judge has the candidate's weights and adapter."""
    first, second = describe_model(judge), describe_model(candidate)
    return all(first.get(key) == second.get(key) for key in ("version", "adapter"))


def require_compiler() -> None:
    """Refuse a machine that lacks what Triton needs to compile GPU code."""
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
