"""The wheel in a fresh environment without vLLM, in a git repository that is not this one."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import toy_model
from tests.support.project import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

THEIRS = """
[project]
name = "theirs"

[tool.pytest.ini_options]
addopts = ["--strict-markers", "--strict-config", "--cov=src", "--html=theirs.html"]
filterwarnings = ["error"]
markers = ["sanity: theirs"]
testpaths = ["tests"]
"""

CONFTEST = """
import pytest

@pytest.fixture
def verdict():
    return "theirs"
"""

TEST = """
import pytest
import src.theirs

@pytest.mark.sanity
def test_theirs(verdict):
    assert verdict == src.theirs.NAME
"""

HTML = """
def pytest_addoption(parser):
    parser.getgroup("terminal reporting").addoption("--html", metavar="path", dest="htmlpath")

def pytest_sessionfinish(session):
    if session.config.option.htmlpath and not hasattr(session.config, "workerinput"):
        open(session.config.option.htmlpath, "w").close()
"""
"""What clashes in pytest-html."""


def required(wheel: Path) -> list[str]:
    """What a wheel requires; the environment of the tests may have been made for an older list."""
    (metadata,) = (
        entry
        for entry in zipfile.Path(wheel).iterdir()
        if entry.name.endswith(".dist-info")
    )
    return importlib.metadata.PathDistribution(metadata).requires or []


def needed(requirements: Sequence[str]) -> set[str]:
    """Distributions that are required, with all that these require, without extras."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = requirement.name.lower()
        applies = not requirement.marker or requirement.marker.evaluate({"extra": ""})
        if applies and name not in found:
            found.add(name)
            waiting += importlib.metadata.requires(name) or []
    return found


def link(names: set[str], folder: Path) -> None:
    """Make installed distributions importable from a folder."""
    folder.mkdir()
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {
            "..",
            "__pycache__",
        }:
            if not (folder / top).exists():
                (folder / top).symlink_to(str(distribution.locate_file(top)))


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, beside its ``source``."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("refusal_checks", "thresholds"):
        shutil.copytree(
            ROOT / name,
            source / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "adapter"),  # 10 MB of weights
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = [
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(source),
    ]
    subprocess.run([*PIP, *built], check=True)
    shutil.rmtree(source / "build")
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the built wheel and what it requires, and no network."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    others = needed([*required(wheel), "pytest-cov", "pytest-xdist"])
    assert "vllm" not in others
    link(others, folder / "others")
    (site / "others.pth").write_text(f"{folder / 'others'}\n")
    (site / "pytest_html.py").write_text(HTML)
    known = site / "pytest_html-4.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pytest-html\nVersion: 4.0\n"
    )
    (known / "entry_points.txt").write_text("[pytest11]\nhtml = pytest_html\n")
    python = str(folder / "venv" / "bin" / "python")
    install = ["--python", python, "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*PIP, *install], check=True)
    return Path(python).parent


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository: git, pytest's configuration, a test, and recorded answers to XSTest."""
    data = Path(os.environ.get("REFUSAL_CHECKS_DATA", "none"))
    if not (data / "xstest" / "completions_gpt4.csv").is_file():
        pytest.skip("REFUSAL_CHECKS_DATA names no folder with XSTest's answers")
    folder = tmp_path / "their repository"
    for name, text in {
        "pyproject.toml": THEIRS,
        "tests/conftest.py": CONFTEST,
        "tests/test_theirs.py": TEST,
        "src/__init__.py": "",
        "src/theirs.py": 'NAME = "theirs"\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(data / "xstest" / "completions_gpt4.csv", folder)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


def call(commands: Path, folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a command of the environment."""
    outside = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    first = ("python", "-m", "pytest") if words[0] == "pytest" else words[:1]
    command = [str(commands / first[0]), *first[1:], *words[1:]]
    done = subprocess.run(
        command, cwd=folder, env=outside, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


CANDIDATE = "replay:completions_gpt4.csv"
JUDGE = ("--judge=labels", "--set=recording.labelled_by=people")


def test_the_command_gates_recordings_in_a_repository_of_others(
    commands: Path, repository: Path
) -> None:
    status, output = call(commands, repository, "refusal-checks", "init", "--ci=gitlab")
    assert status == 0, output
    gates = repository / "thresholds" / "default.toml"
    gates.write_text(f"{gates.read_text()}\n[smoke_safe]\ninvalid_rate = false\n")
    words = ("refusal-checks", "gate", CANDIDATE, *JUDGE, "-k", "xstest", "-n2")
    status, output = call(commands, repository, *words, "--html=report.html")
    assert status == 0, output
    assert "4 passed" in output
    assert "warning" not in output
    assert (repository / "report.html").stat().st_size > 100_000
    assert not (repository / "theirs.html").exists()
    gates.write_text("[xstest_safe]\nrejection_rate = { max = 0.01 }\n")
    status, output = call(commands, repository, *words)
    assert status == 1, output
    assert "against this gate, the worst 5:" in output
    found = {path.name for path in repository.iterdir()}
    assert found == {
        *(
            ".git",
            ".gitignore",
            ".refusal-checks",
            "ci",
            "completions_gpt4.csv",
            "gates",
            "pyproject.toml",
        ),
        *("report.html", "src", "tests", "thresholds"),
    }


def test_gates_stand_among_the_repository_s_own_tests(
    commands: Path, repository: Path
) -> None:
    for extra in ([], ["-n2", "-m", "sanity"]):
        status, output = call(commands, repository, "pytest", *extra)
        assert (status, "1 passed" in output) == (0, True), output
        assert "refusal" not in output.replace("refusal-checks-0", "")
    assert call(commands, repository, "refusal-checks", "init", "--ci=none")[0] == 0
    status, output = call(commands, repository, "pytest")
    assert (status, "1 passed" in output) == (0, True), output
    judge = [option.replace("--", "--refusal-") for option in JUDGE]
    words = (f"--refusal-candidate={CANDIDATE}", *judge, "--refusal-html=ours.html")

    for more in ((), ("-n2",)):
        status, output = call(
            commands,
            repository,
            "pytest",
            "gates/refusal_gates.py",
            "tests",
            *words,
            *more,
        )
        assert status == 0, output
        assert (repository / "ours.html").stat().st_size > 100_000
        assert (repository / "theirs.html").stat().st_size == 0
    (*_, last) = sorted((repository / ".refusal-checks" / "runs").iterdir())
    assert len(json.loads((last / "summary.json").read_text())["verdicts"]) == 4


def test_a_first_answer_needs_no_engine_and_no_data(
    commands: Path, tmp_path: Path
) -> None:
    for recording, code in (("replay:demo", 0), ("replay:demo-regressed", 1)):
        status, output = call(commands, tmp_path, "refusal-checks", "gate", recording)
        assert status == code, output


def test_what_is_not_installed_is_named_with_its_remedy(
    commands: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(toy_model.VARIABLE)
    demo = 'pip install "refusal-checks-demo @ git+'
    for words, remedy in (
        (("org/model", "--judge=keyword"), "pip install"),
        (("demo:base", "--judge=keyword"), demo),
        (("org/model", "--judge=demo:judge"), demo),
    ):
        status, output = call(commands, repository, "refusal-checks", "gate", *words)
        assert status == 4, output
        assert remedy in output
