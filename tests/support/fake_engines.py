"""Fake engines in a project, and what can be seen of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.support.fake_vllm import REQUESTS, STARTS, TAG
from tests.support.project import ROOT, Project

DEMO: dict[str, Any] = {
    "candidate_model": "demo:aligned",
    "judge_model": "demo:writer",
    "sampling_samples": 1,
}
TWO = {**DEMO, "judge_args": "--max-model-len 512"}
"""The same with an engine for each."""


FAKE = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.support.fake_vllm import main; main()
"""


def install(folder: Path, script: str = FAKE) -> None:
    """Put a fake ``vllm`` package into the folder that engines are started from."""
    entrypoints = folder / "vllm" / "entrypoints"
    # Where a build of vLLM for GPUs is installed, its command is started, else its module.
    for module in ("openai/api_server.py", "cli/main.py"):
        path = entrypoints / module
        path.parent.mkdir(parents=True)
        for part in (path.parent, entrypoints, entrypoints.parent):
            (part / "__init__.py").touch()
        path.write_text(script)


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """A fake ``vllm`` in this folder, of which no process stays behind."""
    install(folder)
    yield
    for process in orphans(folder):
        process.kill()


def orphans(folder: Path) -> list[psutil.Process]:
    """The live processes that a fake vLLM of this folder started, and itself."""
    processes = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words, cwd = process.info["cmdline"] or [], process.info["cwd"]
        ours = f"{TAG}-{folder}" in words or ("--port" in words and cwd == str(folder))
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            processes.append(process)
    return processes


def starts(project: Project) -> list[str]:
    """A line for each engine that was started."""
    path = project.path / STARTS
    return path.read_text().splitlines() if path.exists() else []


def requests(project: Project) -> Counter[str]:
    """How many requests there were to the candidate and to the judge."""
    path = project.path / REQUESTS
    return Counter(path.read_text().splitlines() if path.exists() else [])
