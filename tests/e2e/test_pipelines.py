"""What ``refusal-checks init`` writes, and the reusable workflow: their own steps, run with bash.

A wheel of this tree stands in for the address that pip installs from.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from refusal_checks.cli.init import CI, SOURCE, init
from tests.e2e.conftest import ROOT
from tests.e2e.test_installed import link, needed, wheel
from tests.fake_server import FakeServer

pytestmark = pytest.mark.nightly  # half a minute

__all__ = ["wheel"]

KEY, TOKEN = "a-key-that-nothing-shows", "a-token-that-nothing-shows"
ASKED, SAID = "Say hello.", "I cannot say hello, it is unspeakable."

load = YAML(typ="safe").load


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an empty machine, whose pip knows two versions of the package."""
    folder = tmp_path_factory.mktemp("machine")
    index, tools = folder / "index", folder / "tools"
    index.mkdir()
    tools.mkdir()
    link(needed(["refusal-checks", "setuptools"]) - {"refusal-checks"}, folder / "others")
    lines = importlib.metadata.requires("refusal-checks") or []
    requirements = (Requirement(line) for line in [*lines, "setuptools"] if "extra ==" not in line)
    for name in (each.name for each in requirements):  # none of them has files of its own
        version, plain = importlib.metadata.version(name), re.sub(r"[-_.]+", "_", name).lower()
        about = f"{plain}-{version}.dist-info"
        with zipfile.ZipFile(index / f"{plain}-{version}-py3-none-any.whl", "w") as file:
            names = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            file.writestr(f"{about}/METADATA", names)
            file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            file.writestr(f"{plain}.pth", f"{folder / 'others'}\n")
            file.writestr(f"{about}/RECORD", f"{plain}.pth,,\n")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(index / newer(wheel), "w") as new:
        for each in old.infolist():
            text, version = old.read(each), wheel.name.split("-")[1]
            if each.filename.endswith("METADATA"):
                text = text.replace(f"Version: {version}".encode(), b"Version: 99.0")
            new.writestr(each.filename.replace(f"-{version}.dist-info", "-99.0.dist-info"), text)
    record = '(echo "$(basename "$0") $*"; test -t 0 || cat; cat comment.md) >> "$HOME/told"'
    for name in ("gh", "curl"):
        (tools / name).write_text(f"#!/bin/sh\n{record}\n")
    (tools / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return {
        "HOME": str(folder),
        "PATH": f"{tools}:/usr/bin:/bin",
        "PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "LANG": "C.UTF-8",
    }


def newer(wheel: Path) -> str:
    return re.sub(r"-[\d.]+-", "-99.0-", wheel.name)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that wants a key and says the unspeakable."""
    with FakeServer(lambda body: [SAID] * body["n"], api_key=KEY) as server:
        yield f"{server.url}#fake"


def prepared(folder: Path) -> Path:
    """A repository with a gate on one harmless prompt."""
    (folder / "thresholds").mkdir(parents=True)
    (folder / "thresholds" / "ours.jsonl").write_text(json.dumps({"prompt": ASKED}))
    gate = 'file = "ours.jsonl"\nexpect = "answer"\nrejection_rate = { max = 0.5 }\n'
    (folder / "thresholds" / "default.toml").write_text(f"[ours]\n{gate}")
    return folder


def started(kind: CI, folder: Path, wheel: Path, patch: pytest.MonkeyPatch) -> Path:
    patch.chdir(prepared(folder))
    init(kind)
    pin(folder, SOURCE, wheel.as_uri())
    return folder


def pin(folder: Path, old: str, new: str) -> None:
    script = folder / "ci" / "refusal-gate.sh"
    assert script.read_text().count(old) == 1
    script.write_text(script.read_text().replace(old, new))


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text of a workflow with its expressions evaluated; of a choice, the first text."""

    def value(found: re.Match[str]) -> str:
        choice = re.search("&& '(.*?)'", found[1])
        return choice[1] if choice else values.get(found[1], "")

    return re.sub(r"\$\{\{ *(.*?) *\}\}", value, text)


def bash(commands: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-e", "-o", "pipefail", "-c", commands]
    given: Any = {"cwd": folder, "env": env, "stdin": subprocess.DEVNULL}
    return subprocess.run(words, capture_output=True, text=True, **given)


def steps_of(job: Any, folder: Path, env: Mapping[str, str], values: Mapping[str, str]) -> str:
    """Run a job's steps until one fails; all that they printed, and the last exit code."""
    said, files = "", {name: folder / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
    known = {**env, **{name: str(file) for name, file in files.items()}}
    known["GITHUB_STEP_SUMMARY"] = str(folder / "summary.md")
    known |= {name: filled(text, values) for name, text in job.get("env", {}).items()}
    for step in (step for step in job["steps"] if "run" in step):
        own = {name: filled(text, values) for name, text in step.get("env", {}).items()}
        done = bash(step["run"], folder, known | own)
        said += f"{done.stdout}{done.stderr}({done.returncode})"
        if done.returncode:
            break
        if files["GITHUB_ENV"].exists():
            lines = files["GITHUB_ENV"].read_text().splitlines()
            known |= dict(line.split("=", 1) for line in lines)
    return said


def run(kind: CI, folder: Path, machine: Mapping[str, str], url: str) -> str:
    """Run a pipeline as its system does: what its log shows, with the exit code of the gate."""
    named = {"CANDIDATE": url, "JUDGE": "keyword", "EXTRAS": ""}
    env = {**machine, **named}
    if kind == "github":
        jobs = load(folder / ".github/workflows/refusal-gate.yml")["jobs"]
        values = {"inputs.candidate": url, "secrets.CANDIDATE_API_KEY": KEY, "github.token": TOKEN}
        said = steps_of(jobs["gate"], folder, env, values)
        return said + steps_of(jobs["comment"], folder, env, {**values, "inputs.pull-request": "7"})
    env["REFUSAL_CHECKS_CANDIDATE_API_KEY"] = KEY
    if kind == "jenkins":
        (commands,) = re.findall(
            r"\bsh '(.*)'", (folder / "ci/refusal-gate.Jenkinsfile").read_text()
        )
        done = bash(f"set -x; {commands}", folder, env)
        return f"{done.stdout}{done.stderr}({done.returncode})"
    job = load(folder / "ci/refusal-gate.gitlab-ci.yml")["refusal-gate"]
    env |= {"CI_PROJECT_DIR": str(folder), "CI_MERGE_REQUEST_IID": "7", "COMMENT_TOKEN": TOKEN}
    env |= {
        name: text.replace("$CI_PROJECT_DIR", str(folder))
        for name, text in job["variables"].items()
    }
    done = bash("\n".join(job["script"]), folder, env)
    after = bash("\n".join(job["after_script"]), folder, {**env, "CI_API_V4_URL": "https://x"})
    return f"{done.stdout}{done.stderr}({done.returncode}){after.stdout}{after.stderr}"


def require_kept(folder: Path, patterns: Sequence[str], said: str) -> None:
    """Every file that is kept is there, and the answer is in the page alone; keys are nowhere."""
    assert "(1)" in said, said
    for pattern in patterns:
        assert list(folder.glob(pattern)) or pattern.endswith(".log"), pattern
    kept = {path.name: path.read_text() for pattern in patterns for path in folder.glob(pattern)}
    assert SAID in kept["report.html"]
    everything = {**kept, "log": said}
    assert not [name for name, text in everything.items() if KEY in text or TOKEN in text]
    del everything["report.html"]
    assert not [name for name, text in everything.items() if SAID in text or ASKED in text]


def test_each_pipeline_that_init_writes_gates(
    machine: dict[str, str], url: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: tuple[CI, ...] = ("github", "gitlab", "jenkins")
    folders = {kind: started(kind, tmp_path / kind, wheel, monkeypatch) for kind in kinds}
    said = {"github": run("github", folders["github"], machine, url)}
    assert said["github"].count(f"installing refusal-checks @ {wheel.as_uri()}") == 1
    with ThreadPoolExecutor() as pool:  # two runners of one machine
        running = {k: pool.submit(run, k, folders[k], machine, url) for k in kinds[1:]}
    said |= {kind: each.result() for kind, each in running.items()}
    assert sum("waits for it" in said[kind] for kind in kinds[1:]) == 1, said
    assert "installing" not in said["gitlab"] + said["jenkins"]
    steps = load(folders["github"] / ".github/workflows/refusal-gate.yml")["jobs"]["gate"]["steps"]
    gitlab = load(folders["gitlab"] / "ci/refusal-gate.gitlab-ci.yml")["refusal-gate"]["artifacts"]
    jenkins = (folders["jenkins"] / "ci/refusal-gate.Jenkinsfile").read_text()
    patterns = {
        "github": " ".join(
            s["with"]["path"] for s in steps if "upload" in s.get("uses", "")
        ).split(),
        "gitlab": [*gitlab["paths"], gitlab["reports"]["junit"]],
        "jenkins": ", ".join(re.findall(r"(?:artifacts|testResults): '(.*?)'", jenkins)).split(
            ", "
        ),
    }
    for kind in kinds:
        require_kept(folders[kind], patterns[kind], said[kind])
    told = (Path(machine["HOME"]) / "told").read_text()
    assert "gh pr comment 7 --body-file comment.md --edit-last --create-if-none" in told
    assert f"PRIVATE-TOKEN: {TOKEN}" in told
    assert told.count("May it ship? NO") == 2
    assert SAID not in told

    index = Path(machine["PIP_FIND_LINKS"])
    pin(folders["jenkins"], wheel.as_uri(), (index / newer(wheel)).as_uri())
    again = run("jenkins", folders["jenkins"], machine, url)
    assert again.count("installing") == 1
    environment = Path(machine["HOME"]) / ".cache" / "refusal-checks" / "venv"
    (about,) = environment.glob("lib/python*/site-packages/refusal_checks-*.dist-info")
    assert about.name == "refusal_checks-99.0.dist-info"


def test_the_reusable_workflow_gates_in_the_repository_of_its_caller(
    machine: dict[str, str], url: str, wheel: Path, tmp_path: Path
) -> None:
    folder = prepared(tmp_path / "theirs")
    (folder / "refusal-checks").symlink_to(wheel.parent / "source")
    git = ["git", "-C", str(folder / "refusal-checks"), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git[:3], "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "x"], check=True)
    job = load(ROOT / ".github" / "workflows" / "gate.yml")["jobs"]["gate"]
    values = {"inputs.candidate": url, "inputs.judge": "keyword", "inputs.engine": "none"}
    values |= {"inputs.artifact": "checks", "secrets.CANDIDATE_API_KEY": KEY}
    said = steps_of(job, folder, machine, values)
    paths = (s["with"]["path"] for s in job["steps"] if "upload" in s.get("uses", ""))
    require_kept(folder, " ".join(paths).split(), said)
