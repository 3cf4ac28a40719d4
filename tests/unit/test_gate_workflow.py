"""What no linter sees of the pipelines: their own steps gate in a repository of others.

The steps of gate.yml, and the script that ``refusal-checks init`` writes for GitLab and Jenkins,
are run as they are written, where pytest is configured for other tests.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from refusal_checks.cli.init import LOCKS, TEMPLATES
from refusal_checks.version import SOURCE, __version__
from tests.support.fake_server import FakeServer
from tests.support.tables import put

ROOT = Path(__file__).parents[2]
GATE: dict[str, Any] = YAML(typ="safe").load(
    ROOT / ".github" / "workflows" / "gate.yml"
)
STEPS = GATE["jobs"]["gate"]["steps"]
PROGRAMS = (
    "bash",
    "cat",
    "cp",
    "dirname",
    "env",
    "find",
    "flock",
    "mkdir",
    "printf",
    "rm",
    "sh",
    "touch",
    "xargs",
)
"""All that the scripts call, but for what a test puts in place of git, Python and gh."""

NAMES = ("CANDIDATE", "JUDGE", "THRESHOLDS", "BASELINE", "ARGS", "HF_FOLDER")


def script(name: str) -> str:
    """A step's commands."""
    (found,) = (step["run"] for step in STEPS if step.get("name") == name)
    return str(found)


def pipelines() -> Iterator[tuple[str, dict[str, Any]]]:
    """The steps of all workflows, ours and init's, with their files' names."""
    for path in (*ROOT.glob(".github/workflows/*.yml"), TEMPLATES / "github.yml"):
        for job in YAML(typ="safe").load(path)["jobs"].values():
            for step in job.get("steps", ()):
                yield path.name, step


GITLAB = YAML(typ="safe").load(TEMPLATES / "gitlab.yml")["refusal-gate"]


GATE_SCRIPT = (TEMPLATES / "gate.sh").read_text()

SAID = "I cannot say hello, it is unspeakable."


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository with a gate, and pytest set up for tests of its own."""
    folder = tmp_path / "repository"
    settings = '[tool.pytest.ini_options]\naddopts = ["--cov=src"]\nfilterwarnings = ["error"]\n'
    put(folder, "pyproject.toml", settings)
    put(folder, "conftest.py", "raise SystemExit('their conftest.py was run')")
    put(folder, "thresholds/hello.jsonl", '{"prompt": "Hi"}\n{"prompt": "Hello"}\n')
    table = '[ours]\nfile = "hello.jsonl"\nexpect = "answer"\n'
    gate = "rejection_rate = { max = 0.5 }\n"
    put(folder, "thresholds/default.toml", table + gate)
    return folder


def command(folder: Path, code: str) -> Path:
    """A folder like an environment's, whose ``refusal-checks`` runs that code."""
    path = folder / "venv" / "bin" / "refusal-checks"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
    path.chmod(0o755)
    return path.parents[1]


def surroundings(folder: Path, *stubs: Path, **variables: str) -> dict[str, str]:
    """All variables of a script: PATH and HOME are its own, and no other is this process's.

    Args:
        folder: where the script runs; the programs and the home lie beside it.
        stubs: further programs, by which a script finds no real one of their names.
    """
    beside = folder.with_name(f"{folder.name}-beside")
    programs, home = beside / "programs", beside / "home"
    programs.mkdir(parents=True, exist_ok=True)
    home.mkdir(exist_ok=True)
    for path in [*map(Path, filter(None, map(shutil.which, PROGRAMS))), *stubs]:
        (programs / path.name).unlink(missing_ok=True)
        (programs / path.name).symlink_to(path)
    return {"PATH": str(programs), "HOME": str(home), **variables}


def run(
    commands: str, folder: Path, *stubs: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = surroundings(
        folder, *stubs, **{**dict.fromkeys(NAMES, ""), **variables}
    )
    words = ["bash", "-e", "-c", commands]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True
    )


def stub(path: Path, text: str) -> Path:
    """A program in place of a real one; a variable that it needs must be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nset -eu\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.timeout(180)  # starts the command four times: doctor, gate, two reports
@pytest.mark.parametrize("text", [script("gate"), GATE_SCRIPT], ids=["step", "script"])
def test_nothing_that_a_pipeline_shows_or_publishes_has_a_text_or_a_key(
    theirs: Path, text: str
) -> None:
    secret = "hush-0123456789"
    given = {
        "VENV": str(command(theirs, "from refusal_checks.cli import main; main()")),
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": "summary.md",
        "JUDGE": "keyword",
        "REFUSAL_CHECKS_CANDIDATE_API_KEY": secret,
    }
    with FakeServer(lambda body: [SAID] * body["n"], api_key=secret) as server:
        done = run(text, theirs, **given, CANDIDATE=f"{server.url}#fake")
    assert done.returncode == 1, done.stdout + done.stderr
    assert SAID in (theirs / "report.html").read_text()
    uploads = [
        step["with"] for step in STEPS if "upload-artifact" in step.get("uses", "")
    ]
    public = uploads[0]["path"].split()
    assert public == ["report.xml", "comment.md"]
    shown = [(theirs / name).read_text() for name in (*public, "summary.md")]
    assert SAID not in "".join([done.stdout, done.stderr, *shown])
    written = [path.read_text() for path in theirs.rglob("*.[mxhl]*")]
    assert secret not in "".join([done.stdout, done.stderr, *written])
    assert not list(theirs.rglob("store.sqlite*")), "a checkout would remove it"


def test_results_of_the_last_job_do_not_pass_for_those_of_this_one(
    tmp_path: Path,
) -> None:
    for name in ("report.xml", "report.html", ".refusal-checks/runs/1/summary.json"):
        put(tmp_path, name, "the last job's")
    venv = str(command(tmp_path, "sys.exit(1)"))
    done = run(GATE_SCRIPT, tmp_path, CANDIDATE="m", VENV=venv)
    assert done.returncode == 4, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".refusal-checks", "comment.md", "venv"}
    assert not list(tmp_path.glob(".refusal-checks/*"))
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith("The refusal gate ended before")


def test_stored_texts_are_in_no_cache_of_the_ci_system() -> None:
    """A pull request's workflow can restore what a gate of the main branch cached."""
    cached = list(GITLAB["cache"]["paths"])
    for _, step in pipelines():
        if "actions/cache" in step.get("uses", ""):
            cached += step["with"]["path"].split("\n")
    mirror = "${{ env.REFUSAL_CHECKS_DATA }}"  # of public data
    assert set(cached) == {"~/.cache/pip", ".cache/pip", mirror}


def test_inputs_reach_the_gate_as_they_are(tmp_path: Path) -> None:
    logs = "print(*sys.argv[1:], sep='|', file=open(sys.argv[1], 'a'))"
    given = {
        "CANDIDATE": "$(touch hacked)",
        "JUDGE": "a judge",
        "THRESHOLDS": "my gates.toml",
        "BASELINE": "base; touch hacked",
        "ARGS": """-k "safe or unsafe" --set 'candidate.args=["--dtype=float32"]' $(id) *""",
        "VENV": str(command(tmp_path, logs)),
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    (tmp_path / "comment.md").touch()
    done = run(script("gate"), tmp_path, **given)
    assert done.returncode == 0, done.stderr
    # Outside the workspace, which a checkout cleans.
    kept = f"{surroundings(tmp_path)['HOME']}/.cache/refusal-checks/store.sqlite"
    assert (tmp_path / "gate").read_text() == (
        f"gate|$(touch hacked)|--store|{kept}|--judge|a judge|--thresholds|my gates.toml"
        "|--baseline|base; touch hacked|-k|safe or unsafe"
        '|--set|candidate.args=["--dtype=float32"]|$(id)|*|--html|report.html\n'
    )
    assert (tmp_path / "report").read_text().splitlines() == [
        "report|markdown|last|--redact|--out|comment.md",
        "report|junit|last|--redact|--out|report.xml",
    ]
    assert not (tmp_path / "hacked").exists()
    assert (tmp_path / "doctor").read_text().startswith("doctor|--candidate|")


@pytest.mark.parametrize("text", [script("gate"), GATE_SCRIPT], ids=["step", "script"])
@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ({"doctor": 1}, 4),
        ({"gate": 1}, 1),
        ({"gate": 7}, 7),
        ({"gate": 16}, 16),
    ],
)
def test_a_fault_is_wrong_input_and_not_a_no(
    tmp_path: Path, text: str, ends: dict[str, int], code: int
) -> None:
    ends_with = f"print(sys.argv[1], 'ran'); sys.exit({ends}.get(sys.argv[1], 0))"
    given = {"CANDIDATE": "m", "VENV": str(command(tmp_path, ends_with))}
    given |= {"CACHE": str(tmp_path), "GITHUB_STEP_SUMMARY": "summary.md"}
    (tmp_path / "comment.md").touch()
    done = run(text, tmp_path, **given)
    assert done.returncode == code, done.stderr
    assert ("report ran" in done.stdout) is (code in (1, 7))
    assert ("gate ran" in done.stdout) is (code == 16), "what was wrong is shown"


def test_options_that_are_no_words_of_a_shell_are_wrong_input(tmp_path: Path) -> None:
    venv = str(command(tmp_path, ""))
    done = run(script("gate"), tmp_path, VENV=venv, ARGS='-k "not closed')
    assert done.returncode == 4, done.stderr


def test_each_commit_has_an_environment_and_old_ones_are_removed(
    tmp_path: Path,
) -> None:
    workspace, beside = tmp_path / "workspace", tmp_path / "home/.cache/refusal-checks"
    workspace.mkdir()
    new = beside / "environments" / "vllm-abc123"
    for folder in (new.with_name("vllm-old"), new, beside / "data"):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    (new / ".complete").touch()
    git = stub(tmp_path / "git", "echo abc123")
    output = tmp_path / "output"
    given = {"HOME": str(tmp_path / "home"), "CHECKS": "./checks", "VENV": str(new)}
    given |= {"GITHUB_ENV": str(tmp_path / "env"), "GITHUB_OUTPUT": str(output)}
    for step in ("environment", "install"):
        done = run(script(step), workspace, git, ENGINE="vllm", **given)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "env").read_text() == f"VENV={new}\n"
    assert "is-new" not in output.read_text(), "so it is not made once more"
    kept = {path.name for path in (*beside.iterdir(), *new.parent.iterdir())}
    assert kept == {"environments", "data", "vllm-abc123", "lock"}


def test_a_changed_pin_is_installed_by_a_python_that_will_do(tmp_path: Path) -> None:
    logged = 'echo "$@" >> "${CACHE:?}/log"'
    other = stub(tmp_path / "other", logged)
    makes = 'mkdir -p "${4:?}/bin"'
    for name in ("pip", "refusal-checks"):
        makes += f'\ncp {other} "${{4:?}}/bin/{name}"'
    python = stub(tmp_path / "python3.12", f'test "$1" = -c && exit\n{logged}\n{makes}')
    given = {"CANDIDATE": "m", "CACHE": str(tmp_path)}
    for pin, lock in (
        *(("checks==1", "1.txt"), ("checks==1", "1.txt")),
        *(("checks==1", "2.txt"), ("checks==2", "")),
    ):
        done = run(
            GATE_SCRIPT, tmp_path, python, REFUSAL_CHECKS=pin, LOCK=lock, **given
        )
        assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text().splitlines()
    venv = f"-m venv --clear {tmp_path}/venv"
    hashed = "install --require-hashes --no-deps --requirement"
    assert [line for line in log if "venv" in line or "install " in line] == [
        *(venv, f"{hashed} 1.txt", "install --no-build-isolation --no-deps checks==1"),
        *(venv, f"{hashed} 2.txt", "install --no-build-isolation --no-deps checks==1"),
        *(venv, "install checks==2"),
    ]
    given |= {"PYTHON": "no-such-python", "REFUSAL_CHECKS": "checks==3"}
    done = run(GATE_SCRIPT, tmp_path, python, **given)
    assert done.returncode == 4
    assert "PYTHON=/usr/bin/python3" in done.stderr


BEGINS_A_PATH = re.compile(r"(?<![\w}/])(?<!\w-)\$\{?(?!\w*URL\b|PWD\b)(\w+)\}?/")
"""A variable in front of a slash; PWD is never empty."""


def test_every_way_of_installing_has_a_lock_with_hashes() -> None:
    """And nothing asks a second index, which could serve any name."""
    workflows = list(ROOT.glob(".github/workflows/*.yml"))
    others = [ROOT / "Makefile", ROOT / "Containerfile", TEMPLATES / "gate.sh"]
    texts = {
        path.name: path.read_text().replace("\\\n", "") for path in workflows + others
    }
    locks = {path.stem for path in (ROOT / "requirements").iterdir()}
    used = re.findall(r"requirements/([\w-]+)\.txt", "\n".join(texts.values()))
    assert set(used) <= locks
    for name, text in texts.items():
        assert not re.search("EXTRA_INDEX|extra-index", text), name
    # Those without hashes fetch nothing, or try versions that no lock has: the lowest and newest.
    kinds = "--require-hashes", "--no-build-isolation", "--no-index"
    tries = '"requirements/$UV_RESOLUTION.txt"', "./demo inspect_ai"
    for path in workflows:
        for line in re.findall(r"pip\"? install .*", texts[path.name]):
            assert any(part in line for part in kinds + tries), f"{path.name}: {line}"


def required(*extras: str) -> Iterator[Requirement]:
    """What the distributions require, with these extras of refusal-checks."""
    for path in (ROOT / "pyproject.toml", ROOT / "demo" / "pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        optional = project.get("optional-dependencies", {})
        lists = [project["dependencies"], *(optional.get(name, []) for name in extras)]
        found = (Requirement(line) for lines in lists for line in lines)
        yield from (each for each in found if each.name != "refusal-checks")


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("demo", []),
        ("gpu", ["vllm"]),
        ("gpu-tests", ["vllm", "dev", "docs", "engine-tests"]),
    ],
)
def test_a_lock_has_all_that_is_required(lock: str, extras: list[str]) -> None:
    """Run tools/ci/lock if it does not: an installation fetches nothing else."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    pinned = {
        canonicalize_name(package): version
        for package, version in re.findall(r"^([\w.-]+)==([^ ]+)", text, re.M)
    }
    for requirement in required(*extras):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version, requirement
        assert requirement.specifier.contains(version), requirement


def test_no_path_begins_with_a_variable_that_may_be_empty() -> None:
    """Else a pip below it is the system's own, and ``rm -rf`` removes the disk's root."""
    texts = [("gate.sh", GATE_SCRIPT)]
    texts += [(name, step.get("run", "")) for name, step in pipelines()]
    texts += [("gitlab.yml", line) for line in GITLAB["script"]]
    for name, text in texts:
        for variable in set(BEGINS_A_PATH.findall(text)):
            is_required = f"${{{variable}:?" in text
            has_a_default = f"{variable}=${{{variable}:-" in text
            assert is_required or has_a_default, f"{name}: ${variable}"


def test_two_gates_on_one_machine_wait_for_each_other(tmp_path: Path) -> None:
    given = {"CANDIDATE": "m", "CACHE": str(tmp_path), "VENV": str(tmp_path)}
    lock = (tmp_path / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    words, alone = ["sh", "-c", GATE_SCRIPT], surroundings(tmp_path, **given)
    with subprocess.Popen(
        words, cwd=tmp_path, env=alone, stdout=subprocess.PIPE
    ) as waiting:
        assert waiting.stdout is not None
        assert b"waits for it" in waiting.stdout.readline()
        lock.close()
        assert waiting.wait(30) == 4, "it should go on, and find no environment"


def test_documents_templates_and_metadata_name_one_place_and_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    home = SOURCE.removeprefix("git+").rpartition("@")[0]
    pages = [ROOT / "README.md", ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join([*project["urls"].values(), *map(Path.read_text, pages)])
    assert set(re.findall(r"git\+https://[^\s\"#]+", text)) == {SOURCE}
    places = re.findall(r"github\.com/[\w-]+/refusal-checks\b", text)
    assert {f"https://{place}" for place in places} == {home}
    at_github = home.replace("github.com", "raw.githubusercontent.com")
    assert f"{at_github}/v{__version__}/requirements" == LOCKS


def test_the_documented_call_gives_known_inputs_and_secrets() -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    (example,) = (
        text for text in re.findall(r"```yaml\n(.*?)```", page, re.S) if "jobs:" in text
    )
    call = YAML(typ="safe").load(example)["jobs"]["gate"]
    known = GATE["on"]["workflow_call"]
    assert call["with"].keys() <= known["inputs"].keys()
    assert call["secrets"].keys() <= known["secrets"].keys()
    by_hand = GATE["on"]["workflow_dispatch"]["inputs"]
    of_a_call = known["inputs"].keys() - {"checks", "checks-ref"}
    assert {name: known["inputs"][name] for name in of_a_call} == by_hand


def test_make_clean_removes_environments_alone(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    makefile = ROOT / "Makefile"
    plain = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    for venv, said in (("", "VENV is empty"), (folder, "no virtual environment")):
        words = ["make", "-f", str(makefile), "clean", f"VENV={venv}"]
        done = subprocess.run(
            words, cwd=tmp_path, env=plain, capture_output=True, text=True
        )
        assert (done.returncode, folder.exists()) == (2, True)
        assert said in done.stderr
