"""A project whose engines are fake ones, and what can be seen of them."""

from collections import Counter
from pathlib import Path

import psutil

from tests.plugin.conftest import ROOT, Project
from tests.plugin.fake_vllm import REQUESTS, STARTS, TAG

DEMO = ("--candidate", "demo:aligned", "--judge", "demo:judge", "--samples", "1")
TWO = (*DEMO, "--judge-args", "--max-model-len 512")
"""The same with an engine for each."""


def install(folder: Path) -> None:
    """Put a fake ``vllm`` package into the folder that pytest is run from."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "api_server.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.plugin.fake_vllm import main; main()\n"
    )


def orphans(folder: Path) -> list[psutil.Process]:
    """The live processes that a fake vLLM of this folder started, and itself."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words, cwd = process.info["cmdline"] or [], process.info["cwd"]
        ours = f"{TAG}-{folder}" in words or ("--port" in words and cwd == str(folder))
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def starts(project: Project) -> list[str]:
    """A line for each engine that was started."""
    path = project.path / STARTS
    return path.read_text().splitlines() if path.exists() else []


def requests(project: Project) -> Counter[str]:
    """How many requests there were to the candidate and to the judge."""
    path = project.path / REQUESTS
    return Counter(path.read_text().splitlines() if path.exists() else [])
