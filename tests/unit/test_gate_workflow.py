"""What no linter sees of the pipelines: their own steps gate in a repository of others.

The steps of gate.yml, and the script that ``refusal-checks init`` writes for GitLab and Jenkins,
are run as they are written, where pytest is configured for other tests.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from refusal_checks.cli.init import LOCKS, TEMPLATES
from refusal_checks.version import SOURCE, __version__
from tests.support.fake_server import FakeServer

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


def artifacts() -> list[list[str]]:
    """Files of the artifact that is public, and of the one with texts."""
    uploads = [step for step in STEPS if "upload-artifact" in step.get("uses", "")]
    public, private = (step["with"]["path"].split() for step in uploads)
    return [public, private]


SAID = "I cannot say hello, it is unspeakable."


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository with recorded answers, and pytest set up for tests of its own."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["--cov=src"]\nfilterwarnings = ["error"]\n'
    )
    (folder / "conftest.py").write_text("raise SystemExit('their conftest.py was run')")
    rows = [{"prompt": greeting, "completion": SAID} for greeting in ("Hi", "Hello")]
    (folder / "answers.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows)
    )
    gate = "rejection_rate = { max = 0.5 }"
    (folder / "our.toml").write_text(
        f'[ours]\nfile = "answers.jsonl"\nexpect = "answer"\n{gate}\n'
    )
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


def real(folder: Path) -> dict[str, str]:
    """Variables of a gate by the checks of this checkout, on a hosted runner."""
    return {
        "VENV": str(command(folder, "from refusal_checks.cli import main; main()")),
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "repository" / "summary.md"),
        "JUDGE": "keyword",
    }


def nothing_public_has_texts(
    folder: Path, done: subprocess.CompletedProcess[str], public: Iterable[str]
) -> None:
    """The answer is in report.html, and in nothing that is published or shown."""
    assert SAID in (folder / "report.html").read_text()
    shown = [(folder / name).read_text() for name in public]
    shown += [path.read_text() for path in folder.glob("*.md")]
    assert SAID not in "".join([done.stdout, done.stderr, *shown])


@pytest.mark.slow
@pytest.mark.timeout(180)  # starts the command twice: doctor, gate
def test_the_steps_keep_what_the_run_writes_in_a_repository_of_others(
    theirs: Path,
) -> None:
    run(script("comment"), theirs)
    early = (theirs / "comment.md").read_text()
    assert early.startswith("The gate ended before it could report")
    given = {"CANDIDATE": "replay:answers.jsonl", "THRESHOLDS": "our.toml"}
    done = run(script("gate"), theirs, **real(theirs.parent), **given)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (theirs / "comment.md").read_text() != early
    public, private = artifacts()
    assert public == ["report.xml", "comment.md"]
    # but for logs, as no engine was started
    for pattern in {*public, *private} - {".refusal-checks/runs/*/*.log"}:
        assert list(theirs.glob(pattern)), pattern
    nothing_public_has_texts(theirs, done, public)
    published = (theirs / "summary.md").read_text()
    assert published == (theirs / "comment.md").read_text()
    assert published.strip() in done.stdout
    assert len(list(theirs.glob(".refusal-checks/runs/*"))) == 1, "decided once"
    kept = (
        theirs.with_name("repository-beside")
        / "home/.cache/refusal-checks/store.sqlite"
    )
    assert kept.exists(), "the next job goes on from it"
    assert not list(theirs.rglob("store.sqlite*")), "a checkout would remove it"


@pytest.mark.slow
@pytest.mark.timeout(180)  # starts the command three times
def test_a_pipeline_with_a_server_comments_and_keeps_nothing_of_the_last_job(
    theirs: Path,
) -> None:
    jobs = YAML(typ="safe").load(TEMPLATES / "github.yml")["jobs"]
    (gating,) = (s for s in jobs["gate"]["steps"] if "gate.sh" in s.get("run", ""))
    (posting,) = (step for step in jobs["comment"]["steps"] if "run" in step)
    for name, source in {
        "ci/refusal-gate.sh": TEMPLATES / "gate.sh",
        "thresholds/default.toml": theirs / "our.toml",
        "thresholds/answers.jsonl": theirs / "answers.jsonl",
    }.items():
        (theirs / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, theirs / name)
    gh = stub(theirs.parent / "gh", 'echo "$@" > posted\ncat comment.md >> posted')
    around = real(theirs.parent) | {"CI": "true", "CACHE": str(theirs.parent / "cache")}
    with FakeServer(
        lambda body: [SAID] * body["n"], api_key="hush-0123456789"
    ) as server:

        def gate(key: str) -> subprocess.CompletedProcess[str]:
            given = {
                "inputs.candidate": f"{server.url}#fake",
                "secrets.CANDIDATE_API_KEY": key,
            }
            environment = {
                name: given.get(value[4:-3], "")
                for name, value in gating["env"].items()
            }
            return run(gating["run"], theirs, **around | environment)

        failing = gate("hush-0123456789")
        assert failing.returncode == 1, failing.stdout + failing.stderr
        kept = YAML(typ="safe").load(TEMPLATES / "gitlab.yml")["refusal-gate"]
        for name in kept["artifacts"]["paths"][:3]:
            assert (theirs / name).exists(), name
        public = ["comment.md", kept["artifacts"]["reports"]["junit"]]
        nothing_public_has_texts(theirs, failing, public)
        assert "FAIL" in failing.stdout
        assert len(list(theirs.glob(".refusal-checks/runs/*"))) == 1, "decided once"
        posted = run(posting["run"], theirs, gh, **around, NUMBER="7")
        said = (theirs / "posted").read_text()
        assert said.startswith("pr comment 7 --body-file comment.md")
        files = [path.read_text() for path in theirs.rglob("*.[mxhl]*")]
        assert "hush" not in "".join(map(str, (failing, posted, *files)))
        refused = gate("a wrong one")
    assert refused.returncode == 4, refused.stdout
    assert "set REFUSAL_CHECKS_CANDIDATE_API_KEY" in refused.stdout
    for name in ("report.xml", "report.html"):
        assert not (theirs / name).exists(), "it may be the last job's"
    for summary in theirs.glob(".refusal-checks/runs/*/summary.json"):
        assert SAID not in summary.read_text(), "nor is a run"
    assert (
        (theirs / "comment.md").read_text().startswith("The refusal gate ended before")
    )


def test_stored_texts_are_in_no_cache_of_the_ci_system() -> None:
    """A pull request's workflow can restore what a gate of the main branch cached."""
    cached = []
    for path in (*ROOT.glob(".github/workflows/*.yml"), TEMPLATES / "github.yml"):
        for job in YAML(typ="safe").load(path)["jobs"].values():
            for step in job["steps"]:
                if "actions/cache" in step.get("uses", ""):
                    cached.extend(step["with"]["path"].split("\n"))
    gitlab = YAML(typ="safe").load(TEMPLATES / "gitlab.yml")["refusal-gate"]
    cached.extend(gitlab["cache"]["paths"])
    mirror = "${{ env.REFUSAL_CHECKS_DATA }}"  # of public data
    assert set(cached) == {"~/.cache/pip", ".cache/pip", mirror}


GIVEN = {
    "THRESHOLDS": "my gates.toml",
    "BASELINE": "base; touch hacked",
    "ARGS": """-k "safe or unsafe" --set 'candidate.args=["--dtype=float32"]' $(id) *""",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "org/model|--store|STORE|--judge|a judge"),
        (
            GIVEN,
            "org/model|--store|STORE|--judge|a judge|--thresholds|my gates.toml"
            "|--baseline|base; touch hacked|-k|safe or unsafe"
            '|--set|candidate.args=["--dtype=float32"]|$(id)|*',
        ),
        (
            {"CANDIDATE": "$(touch hacked)"},
            "$(touch hacked)|--store|STORE|--judge|a judge",
        ),
    ],
)
def test_inputs_reach_the_gate_as_they_are(
    tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    logs = "print(*sys.argv[1:], sep='|', file=open(sys.argv[1], 'a'))"
    venv = command(tmp_path, logs)
    usual = {"CANDIDATE": "org/model", "JUDGE": "a judge", "VENV": str(venv)}
    given = {**usual, "GITHUB_STEP_SUMMARY": "summary.md", **given}
    (tmp_path / "comment.md").touch()
    done = run(script("gate"), tmp_path, **given)
    assert done.returncode == 0, done.stderr
    (gate,) = (tmp_path / "gate").read_text().splitlines()
    # Outside the workspace, which a checkout cleans.
    home = tmp_path.with_name(f"{tmp_path.name}-beside") / "home"
    expected = expected.replace("STORE", f"{home}/.cache/refusal-checks/store.sqlite")
    assert gate == f"gate|{expected}|--html|report.html"
    assert (tmp_path / "report").read_text().splitlines() == [
        "report|markdown|last|--redact|--out|comment.md",
        "report|junit|last|--redact|--out|report.xml",
    ]
    assert not (tmp_path / "hacked").exists()
    assert (tmp_path / "doctor").read_text().startswith("doctor|--candidate|")


@pytest.mark.parametrize(
    ("ends", "given", "code"),
    [
        ({"doctor": 1}, {}, 4),
        ({}, {"ARGS": '-k "not closed'}, 4),
        ({"gate": 1}, {}, 1),
        ({"gate": 7}, {}, 7),
        ({"gate": 16}, {}, 16),
    ],
)
def test_a_fault_is_wrong_input_and_not_a_no(
    tmp_path: Path, ends: dict[str, int], given: dict[str, str], code: int
) -> None:
    """For the workflow and for the script of init alike."""
    ends_with = f"print(sys.argv[1], 'ran'); sys.exit({ends}.get(sys.argv[1], 0))"
    venv = command(tmp_path, ends_with)
    given = {"CANDIDATE": "m", "VENV": str(venv), "CACHE": str(tmp_path)} | given
    given["GITHUB_STEP_SUMMARY"] = "summary.md"
    texts = [script("gate")]
    if "ARGS" not in given:  # the script gets its options as words
        texts.append((TEMPLATES / "gate.sh").read_text())
    for text in texts:
        (tmp_path / "comment.md").touch()
        done = run(text, tmp_path, **given)
        assert done.returncode == code, done.stderr
        assert ("report ran" in done.stdout) is (code in (1, 7))
        assert ("gate ran" in done.stdout) is (code == 16), "what was wrong is shown"


def test_old_environments_are_removed_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    beside = home / ".cache" / "refusal-checks"
    old = beside / "environments" / "vllm-old"
    new = beside / "environments" / "none-new"
    for folder in (old, new, beside / "demo-models", beside / "data"):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    (new / ".complete").touch()
    given = {"HOME": str(home), "ENGINE": "none", "CHECKS": ".", "VENV": str(new)}
    done = run(script("install"), tmp_path, **given)
    assert done.returncode == 0, done.stderr
    kept = {path.name for path in (*beside.iterdir(), *new.parent.iterdir())}
    assert kept == {"environments", "demo-models", "data", "none-new", "lock"}


@pytest.mark.parametrize(
    ("engine", "locks"), [("vllm", ("gpu", "demo-weights")), ("none", ("demo",))]
)
def test_the_environment_lies_outside_the_workspace_and_is_made_once(
    tmp_path: Path, engine: str, locks: tuple[str, ...]
) -> None:
    # Without ./ pip would take the folder's name for that of a package of its index.
    assert "&& './refusal-checks' ||" in GATE["jobs"]["gate"]["env"]["CHECKS"]
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    logged = 'echo "$@" >> "${HOME:?}/log"'
    pip = stub(tmp_path / "pip", logged)
    makes = f'mkdir -p "${{3:?}}/bin"\ncp {pip} "${{3:?}}/bin/pip"'
    stubs = (
        stub(tmp_path / "python", f"{logged}\n{makes}"),
        stub(tmp_path / "git", "echo abc123"),
    )
    file, output = tmp_path / "env", tmp_path / "output"
    variables = {"HOME": str(home), "ENGINE": engine, "CHECKS": "./checks"}
    variables |= {"GITHUB_ENV": str(file), "GITHUB_OUTPUT": str(output)}
    venv = home / ".cache" / "refusal-checks" / "environments" / f"{engine}-abc123"
    for step in ("environment", "install") * 2:
        done = run(script(step), workspace, *stubs, VENV=str(venv), **variables)
        assert done.returncode == 0, done.stderr
    assert (home / "log").read_text().splitlines() == [
        f"-m venv {venv}",
        *(
            f"install --require-hashes --no-deps --requirement ./checks/requirements/{lock}.txt"
            for lock in locks
        ),
        "install --no-build-isolation --no-deps ./checks ./checks/demo",
    ]
    assert file.read_text() == f"VENV={venv}\n" * 2
    assert output.read_text().count("is-new=true") == 1, "wheels are fetched once"
    variables["ENGINE"] = "$(touch hacked)"
    assert run(script("environment"), workspace, *stubs, **variables).returncode == 4
    assert not (workspace / "hacked").exists()


def test_a_changed_pin_is_installed_by_a_python_that_will_do(tmp_path: Path) -> None:
    logged = 'echo "$@" >> "${CACHE:?}/log"'
    other = stub(tmp_path / "other", logged)
    makes = 'mkdir -p "${4:?}/bin"'
    for name in ("pip", "refusal-checks"):
        makes += f'\ncp {other} "${{4:?}}/bin/{name}"'
    python = stub(tmp_path / "python3.12", f'test "$1" = -c && exit\n{logged}\n{makes}')
    text = (TEMPLATES / "gate.sh").read_text()
    given = {"CANDIDATE": "m", "CACHE": str(tmp_path)}
    for pin, lock in (
        *(("checks==1", "1.txt"), ("checks==1", "1.txt")),
        *(("checks==1", "2.txt"), ("checks==2", "")),
    ):
        done = run(text, tmp_path, python, REFUSAL_CHECKS=pin, LOCK=lock, **given)
        assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text().splitlines()
    venv = f"-m venv --clear {tmp_path}/venv"
    hashed = "install --require-hashes --no-deps --requirement"
    assert [line for line in log if "venv" in line or "install " in line] == [
        *(venv, f"{hashed} 1.txt", "install --no-build-isolation --no-deps checks==1"),
        *(venv, f"{hashed} 2.txt", "install --no-build-isolation --no-deps checks==1"),
        *(venv, "install checks==2"),
    ]
    given["PYTHON"] = "no-such-python"
    done = run(text, tmp_path, python, REFUSAL_CHECKS="checks==3", **given)
    assert done.returncode == 4
    assert "PYTHON=/usr/bin/python3" in done.stderr
    done = run(text, tmp_path, VENV=str(tmp_path / "venv"))
    assert done.returncode != 0
    assert "CANDIDATE: name the model under test" in done.stderr


BEGINS_A_PATH = re.compile(r"(?<![\w}/])(?<!\w-)\$\{?(?!\w*URL\b|PWD\b)(\w+)\}?/")
"""A variable in front of a slash; PWD is never empty."""


def shell_texts() -> Iterator[tuple[str, str]]:
    """Names and texts of all that a shell runs: what is shipped or shown, and stubs of tests."""
    for path in (ROOT / ".ci" / "run", TEMPLATES / "gate.sh"):
        yield path.name, path.read_text()
    for path in (*ROOT.glob(".github/workflows/*.yml"), TEMPLATES / "github.yml"):
        for name, job in YAML(typ="safe").load(path)["jobs"].items():
            for step in job["steps"]:
                yield f"{path.name}: {name}: {step.get('name')}", step.get("run", "")
    gitlab = YAML(typ="safe").load(TEMPLATES / "gitlab.yml")["refusal-gate"]
    for name in ("script", "after_script"):
        yield f"gitlab.yml: {name}", "\n".join(gitlab[name])
    for path in (ROOT / "docs").rglob("*.md"):
        for text in re.findall(
            r"```(?:sh|bash|console)\n(.*?)```", path.read_text(), re.S
        ):
            yield path.name, text
    for folder in ("tests", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_every_way_of_installing_has_a_lock_with_hashes() -> None:
    """And nothing asks a second index, which could serve any name."""
    bounds = {"lowest-direct", "highest"}  # of the tests with other versions
    locks = {path.stem: path for path in (ROOT / "requirements").iterdir()}
    for name in locks.keys() - bounds:
        text = locks[name].read_text()
        pinned = re.findall(
            r"^[\w.-]+(?:\[.*?\])?==.*((?:\n    --hash=sha256:.*)+)", text, re.M
        )
        assert len(pinned) == len(re.findall(r"^[^\s#]", text, re.M)), name
    workflows = [*ROOT.glob(".github/workflows/*.yml")]
    files = [
        ROOT / "Makefile",
        ROOT / "Containerfile",
        *workflows,
        TEMPLATES / "gate.sh",
    ]
    texts = {path.name: path.read_text().replace("\\\n", "") for path in files}
    used = set(re.findall(r"requirements/([\w-]+)\.txt", "\n".join(texts.values())))
    assert used <= locks.keys()
    for name, text in texts.items():
        assert not re.search("EXTRA_INDEX|extra-index", text), name
    # These two try versions that no lock has: the lowest and the newest.
    tries = ('"requirements/$UV_RESOLUTION.txt"', "./demo inspect_ai")
    for path in workflows:
        for line in re.findall(r"pip\"? install .*", path.read_text()):
            is_locked = "--require-hashes" in line or "--no-build-isolation" in line
            is_offline = "--no-index" in line or any(part in line for part in tries)
            assert is_locked or is_offline, f"{path.name}: {line}"


def required(*extras: str) -> Iterator[Requirement]:
    """What the distributions require, with these extras of refusal-checks."""
    for path in (ROOT / "pyproject.toml", ROOT / "demo" / "pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        lines = list(project["dependencies"])
        for extra in extras:
            lines += project.get("optional-dependencies", {}).get(extra, [])
        for line in lines:
            requirement = Requirement(line)
            if requirement.name != "refusal-checks":
                yield requirement


@pytest.mark.parametrize(
    ("locks", "extras"),
    [
        (("demo",), ()),
        (("gpu",), ("vllm",)),
        (("gpu-tests",), ("vllm", "dev", "docs", "engine-tests")),
        (("tests",), ("dev", "docs")),
        (("tests", "engine-cpu"), ("dev", "docs")),
    ],
    ids=str,
)
def test_a_lock_has_all_that_is_required(
    locks: tuple[str, ...], extras: tuple[str, ...]
) -> None:
    """Run tools/ci/lock if it does not: an installation fetches nothing else."""
    pinned: dict[str, set[str]] = {}
    for name in locks:
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        for package, version in re.findall(r"^([\w.-]+)==([^ ]+)", text, re.M):
            pinned.setdefault(canonicalize_name(package), set()).add(version)
    lacking = [
        str(requirement)
        for requirement in required(*extras)
        for versions in [pinned.get(canonicalize_name(requirement.name), set())]
        if not versions or not all(map(requirement.specifier.contains, versions))
    ]
    assert lacking == []


def test_an_image_gets_what_it_lacks_and_what_is_too_old(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    digest = "    --hash=sha256:00"
    entries = {
        "numpy==0.1": False,
        "PyYAML==0.1": True,
        "not.installed==1 ; python_version > '3'": True,
        "not-for-this==1 ; sys_platform == 'emscripten'": False,
    }
    lock.write_text("# by hand\n")
    with lock.open("a") as file:
        for entry in entries:
            file.write(f"{entry} \\\n{digest} \\\n{digest}\n")
    needs = '[build-system]\nrequires = []\n[project]\ndependencies = ["pyyaml>999"]\n'
    (tmp_path / "pyproject.toml").write_text(needs)
    words = [sys.executable, str(ROOT / "tools" / "ci" / "missing")]
    words += ["lock.txt", "pyproject.toml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lacking = [entry for entry, is_lacking in entries.items() if is_lacking]
    assert done.stdout == "".join(
        f"{entry} \\\n{digest} \\\n{digest}\n" for entry in lacking
    )


def test_no_path_begins_with_a_variable_that_may_be_empty() -> None:
    """Else a pip below it is the system's own."""
    careless = []
    for name, text in shell_texts():
        for variable in set(BEGINS_A_PATH.findall(text)):
            is_required = f"${{{variable}:?" in text
            has_a_default = f"{variable}=${{{variable}:-" in text
            if not is_required and not has_a_default:
                careless.append(f"{name}: ${variable}")
    assert not careless


def test_make_takes_no_empty_environment_and_removes_nothing_else(
    tmp_path: Path,
) -> None:
    def make(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "-f", str(ROOT / "Makefile"), *words]
        # A make that runs the tests would say more, and pass its own variables on.
        alone = {
            name: value for name, value in os.environ.items() if "MAKE" not in name
        }
        return subprocess.run(
            command, cwd=tmp_path, env=alone, capture_output=True, text=True
        )

    empty = make("-n", "clean", "VENV=")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "VENV is empty: name the folder of the environment, or" in empty.stderr
    folder = tmp_path / "ours"
    folder.mkdir()
    other = make("clean", f"VENV={folder}")
    assert (other.returncode, folder.exists()) == (2, True)
    assert f"{folder} is no virtual environment, so it stays" in other.stderr
    (folder / "pyvenv.cfg").touch()
    assert make("clean", f"VENV={folder}").returncode == 0
    assert not folder.exists()


def test_two_gates_on_one_machine_wait_for_each_other(tmp_path: Path) -> None:
    text = (TEMPLATES / "gate.sh").read_text()
    given = {"CANDIDATE": "m", "CACHE": str(tmp_path), "VENV": str(tmp_path)}
    lock = (tmp_path / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    words, alone = ["sh", "-c", text], surroundings(tmp_path, **given)
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
    assert project["urls"].pop("Homepage") == home
    assert all(url.startswith(f"{home}/") for url in project["urls"].values())
    pages = [ROOT / "README.md", ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(path.read_text() for path in pages)
    assert set(re.findall(r"git\+https://[^\s\"#]+", text)) == {SOURCE}
    assert set(re.findall(r"github\.com/([\w-]+/refusal-checks)\b", text)) == {
        home[19:]
    }
    assert set(re.findall(r"uses: (\S+?)/\.github", text)) == {home[19:]}
    script = (TEMPLATES / "gate.sh").read_text()
    assert "@SOURCE@" in script
    assert "@LOCKS@/gpu.txt" in script
    at_github = home.replace("github.com", "raw.githubusercontent.com")
    assert f"{at_github}/v{__version__}/requirements" == LOCKS


def test_the_documented_call_gives_known_inputs_and_secrets() -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    examples = [
        YAML(typ="safe").load(text)
        for text in re.findall(r"```yaml\n(.*?)```", page, re.S)
    ]
    (jobs,) = (example["jobs"] for example in examples if "jobs" in example)
    call, comment = jobs["gate"], jobs["comment"]
    posted = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "comment.yml")
    assert comment["with"].keys() <= posted["on"]["workflow_call"]["inputs"].keys()
    gate = GATE["on"]["workflow_call"]
    assert call["with"].keys() <= gate["inputs"].keys()
    assert call["secrets"].keys() <= gate["secrets"].keys()
    by_hand = GATE["on"]["workflow_dispatch"]["inputs"]
    of_a_call = gate["inputs"].keys() - {"checks", "checks-ref"}
    assert {name: gate["inputs"][name] for name in of_a_call} == by_hand
    assert len(by_hand) <= 10, "more than older servers and linters take"
