"""The installed plugin in repositories of others: silent, and taking nothing of theirs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, THRESHOLDS, Project, refused

pytestmark = pytest.mark.slow

INSTALLED = ("-p", "refusal_checks.plugin")
"""Loads the plugin as its entry point does: before any conftest.py."""

CONFTEST = """
import pytest

def pytest_addoption(parser):
    for name in ("--seed", "--limit", "--data", "--html", "--fresh"):
        parser.addoption(name, default="theirs")

@pytest.fixture
def verdict(request):
    return request.config.getoption("seed")

@pytest.fixture
def candidate():
    return "theirs"
"""

TESTS = """
import asyncio
import sys
import pytest

@pytest.mark.sanity
@pytest.mark.parametrize("gate", ["xstest_safe-rejection_rate"])
def test_gate(verdict, candidate, gate):
    assert (verdict, candidate) == ("theirs", "theirs")

@pytest.fixture
def loop():
    loop = asyncio.get_event_loop_policy().get_event_loop()
    yield loop
    loop.close()

@pytest.mark.sanity
def test_their_loop_runs(loop):
    assert loop.run_until_complete(asyncio.sleep(0, "awaited")) == "awaited"

def test_nothing_is_loaded():
    assert not [name for name in sys.modules if name.startswith("refusal_checks.gates")]
"""

RELEASE = "from refusal_checks.suite import test_gate, test_judge"


@pytest.fixture
def theirs(project: Project) -> Project:
    """A strict repository with options, fixtures and markers named like ours, and no gates."""
    (project.path / "test_gates.py").unlink()
    project.write("conftest.py", CONFTEST)
    project.write("test_theirs.py", TESTS)
    project.write(
        "tox.ini",
        "[pytest]\naddopts = --strict-markers --strict-config -p no:cacheprovider -p no:syrupy -q\n"
        "markers = sanity: theirs\nfilterwarnings = error\n",
    )
    project.thresholds("theirs = true\n")
    return project


def test_a_repository_without_gates_notices_nothing(theirs: Project) -> None:
    for args in ((), ("-n2", "-m", "sanity", "--seed", "theirs")):
        # not forked: that process has loaded everything already
        command = [sys.executable, "-m", "pytest", *INSTALLED, *args]
        done = subprocess.run(command, cwd=theirs.path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        assert "refusal" not in done.stdout.replace(str(theirs.path), "")
        assert not (theirs.path / ".refusal-checks").exists()


def test_a_gate_beside_them_uses_its_own_options(theirs: Project) -> None:
    theirs.write("test_release.py", RELEASE)
    theirs.write("few.toml", THRESHOLDS)
    chosen = ("-m", "refusal_sanity or sanity", "--refusal-limit=4")
    models = (f"--candidate={theirs.model}", f"--judge={theirs.model}", "--samples=1")
    result = theirs.run(
        *(*INSTALLED, *models, *chosen, "--thresholds=few.toml"),
        "--refusal-html=ours.html",
    )
    result.assert_outcomes(passed=3)
    assert (theirs.path / "ours.html").is_file()
    assert len(theirs.asked(judge=True)) == 4


def test_what_init_wrote_is_collected_where_a_candidate_is_named(
    theirs: Project,
) -> None:
    theirs.write("gates/refusal_gates.py", RELEASE)
    args = (*INSTALLED, "--thresholds=smoke", "-k", "smoke_safe", "--collect-only")
    result = theirs.run(*args, f"--candidate={theirs.model}", "--judge=keyword")
    assert (
        "gates/refusal_gates.py::test_gate[smoke_safe-rejection_rate]"
        in result.outlines
    )
    result = theirs.run(*INSTALLED, "-k", "smoke_safe")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    said = "gates need a model: add --refusal-candidate=MODEL --refusal-judge=JUDGE"
    assert said in result.outlines


def test_keys_of_the_configuration_name_the_repository_s_files(theirs: Project) -> None:
    theirs.write("gates/test_release.py", RELEASE)
    theirs.write("gates/few.toml", f'{THRESHOLDS}\n[judge]\nmodel = "keyword"\n')
    ini = theirs.path / "tox.ini"
    ini.write_text(
        f"{ini.read_text()}refusal_checks_thresholds = gates/few.toml\n"
        "refusal_checks_folder = 'runs here'\n"
    )
    args = (
        *INSTALLED,
        f"--candidate={theirs.model}",
        "--samples=1",
        "-k",
        "smoke_safe",
    )
    theirs.run("gates", *args).assert_outcomes(passed=1)
    theirs.path /= "gates"  # called from within
    theirs.run(".", *args).assert_outcomes(passed=1)
    theirs.path = theirs.path.parent
    assert len(list((theirs.path / "runs here" / "runs").iterdir())) == 2


def test_without_thresholds_of_its_own_a_repository_has_the_shipped_gates(
    theirs: Project,
) -> None:
    shutil.rmtree(theirs.path / "thresholds")
    theirs.write("test_release.py", RELEASE)
    for args, gate in (
        ((), "xstest_safe-rejection_rate"),
        (("--thresholds=smoke",), "smoke_safe-rejection_rate"),
    ):
        result = theirs.run(*INSTALLED, "--collect-only", "test_release.py", *args)
        assert f"test_release.py::test_gate[{gate}]" in result.outlines
    result = theirs.run(*INSTALLED, "--thresholds=none.toml", "test_release.py")
    refused(result, "none.toml: no such file*smoke")
    refused(theirs.run(*INSTALLED, "-n2"), "ERROR: --candidate and --judge missing")


def test_a_candidate_s_folder_is_no_folder_of_tests(
    project: Project, tmp_path: Path
) -> None:
    (project.path / "conftest.py").unlink()
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    (checkpoint / "conftest.py").write_text("raise SystemExit('code was run')")
    args = (f"--candidate={checkpoint}", "--judge=keyword", "--collect-only", "-q")
    result = project.start("pytest", *INSTALLED, *args).result()
    assert result.ret == 0
    assert "test_gates.py::test_gate[smoke_safe-rejection_rate]" in result.outlines


def test_the_plugin_costs_little_where_there_are_no_gates() -> None:
    code = "import pytest, sys; old = set(sys.modules); import refusal_checks.plugin;"
    code += "print(*sorted(set(sys.modules) - old))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "refusal_checks",
        "refusal_checks.plugin",
        "refusal_checks.plugin.options",
        "refusal_checks.plugin.xdist",
        "refusal_checks.version",
    ]


def test_a_conftest_py_may_load_the_installed_plugin_again(project: Project) -> None:
    args = (
        f"--candidate={project.model}",
        "--judge=keyword",
        "--samples=1",
        "-k",
        "smoke_safe",
    )
    project.run(*INSTALLED, *args).assert_outcomes(passed=1)
