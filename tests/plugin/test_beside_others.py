"""The installed plugin in repositories of others: silent, and taking nothing of theirs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_server import FakeServer
from tests.plugin.conftest import ROOT, THRESHOLDS

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
import sys
import pytest

@pytest.mark.sanity
@pytest.mark.parametrize("gate", ["xstest_safe-rejection_rate"])
def test_gate(verdict, candidate, gate):
    assert (verdict, candidate) == ("theirs", "theirs")

def test_nothing_is_loaded():
    assert not [name for name in sys.modules if name.startswith("refusal_checks.gates")]
"""


@pytest.fixture
def theirs(project: pytest.Pytester) -> pytest.Pytester:
    """A strict repository with options, fixtures and markers named like ours, and no gates."""
    (project.path / "test_gates.py").unlink()
    project.makeconftest(CONFTEST)
    project.makepyfile(TESTS)
    (project.path / "tox.ini").write_text(
        "[pytest]\naddopts = --strict-markers --strict-config -p no:cacheprovider -p no:syrupy -q\n"
        "markers = sanity: theirs\nfilterwarnings = error\n"
    )
    (project.path / "thresholds" / "default.toml").write_text("theirs = true\n")
    return project


@pytest.mark.parametrize("args", [(), ("-n2", "-m", "sanity", "--seed", "theirs")], ids=str)
def test_a_repository_without_gates_notices_nothing(
    theirs: pytest.Pytester, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # not forked: that process has loaded everything already
    monkeypatch.setattr(theirs, "popen", pytest.Pytester.popen.__get__(theirs))
    result = theirs.runpytest_subprocess(*INSTALLED, *args)
    assert result.ret == 0, result.stdout.str()
    result.stdout.no_fnmatch_line("*refusal*")
    assert not (theirs.path / ".refusal-checks").exists()


def test_a_gate_beside_them_uses_its_own_options(
    theirs: pytest.Pytester, server: FakeServer
) -> None:
    theirs.makepyfile(test_release="from refusal_checks.suite import test_gate, test_judge")
    (theirs.path / "few.toml").write_text(THRESHOLDS)
    model = f"{server.url}#fake"
    result = theirs.runpytest_subprocess(
        *(*INSTALLED, f"--candidate={model}", f"--judge={model}", "--samples=1"),
        *("--thresholds=few.toml", "--refusal-limit=4", "--limit=9", "--refusal-html=ours.html"),
        *("--html=theirs.html", "-m", "refusal_sanity or sanity"),
    )
    result.assert_outcomes(passed=2)
    assert (theirs.path / "ours.html").is_file()
    assert not (theirs.path / "theirs.html").exists()
    assert len(server.asked(judge=True)) == 4
    result.stdout.fnmatch_lines(
        [
            "--limit is an option of another plugin here; write --refusal-limit",
            "--html is an option of another plugin here; write --refusal-html",
        ],
        consecutive=False,
    )


def test_keys_of_the_configuration_name_the_repository_s_files(
    theirs: pytest.Pytester, server: FakeServer
) -> None:
    (theirs.path / "gates").mkdir()
    (theirs.path / "gates" / "test_release.py").write_text(
        "from refusal_checks.suite import test_gate, test_judge"
    )
    (theirs.path / "gates" / "few.toml").write_text(THRESHOLDS)
    ini = theirs.path / "tox.ini"
    ini.write_text(
        f"{ini.read_text()}refusal_checks_thresholds = gates/few.toml\n"
        "refusal_checks_folder = runs here\nrefusal_checks_judge = keyword\n".replace(
            "runs here", "'runs here'"
        )
    )
    args = (f"--candidate={server.url}#fake", "--samples=1", "-k", "smoke_safe")
    for folder in (theirs.path, theirs.path / "gates"):
        theirs.chdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            path = "gates" if folder == theirs.path else "."
            theirs.runpytest_subprocess(*INSTALLED, path, *args).assert_outcomes(passed=1)
    assert len(list((theirs.path / "runs here" / "runs").iterdir())) == 2


def test_without_thresholds_of_its_own_a_repository_has_the_shipped_gates(
    theirs: pytest.Pytester,
) -> None:
    shutil.rmtree(theirs.path / "thresholds")
    theirs.makepyfile(test_release="from refusal_checks.suite import test_gate, test_judge")
    result = theirs.runpytest_subprocess(*INSTALLED, "--collect-only", "test_release.py")
    assert "test_release.py::test_gate[xstest_safe-rejection_rate]" in result.outlines
    args = ("--collect-only", "test_release.py", "--thresholds=smoke")
    result = theirs.runpytest_subprocess(*INSTALLED, *args)
    assert "test_release.py::test_gate[smoke_safe-rejection_rate]" in result.outlines
    result = theirs.runpytest_subprocess(*INSTALLED, "--thresholds=none.toml", "test_release.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*none.toml: cannot be read: no such file*smoke*"])


def test_gates_that_are_collected_without_a_candidate_say_what_is_missing(
    theirs: pytest.Pytester,
) -> None:
    theirs.makepyfile(test_release="from refusal_checks.suite import test_gate, test_judge")
    shutil.rmtree(theirs.path / "thresholds")
    result = theirs.runpytest_subprocess(*INSTALLED, "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --candidate and --judge missing*"])


@pytest.fixture
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model elsewhere, whose conftest.py must not be run."""
    folder = tmp_path_factory.mktemp("models") / "checkpoint-1"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "conftest.py").write_text("raise SystemExit('code of a checkpoint was run')")
    return folder


FORMS = {
    "path first": (".", "--candidate", "{model}", "--judge", "keyword"),
    "path last": ("--judge", "keyword", "--candidate", "{model}", "test_gates.py"),
    "second name": ("--refusal-candidate={model}", "--judge=keyword"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_candidate_s_folder_in_each_form(
    project: pytest.Pytester, checkpoint: Path, form: str
) -> None:
    (project.path / "conftest.py").unlink()
    args = [word.format(model=checkpoint) for word in FORMS[form]]
    result = project.runpytest_subprocess(*INSTALLED, *args, "--collect-only", "-q")
    assert result.ret == 0, result.stderr.str()
    assert "test_gates.py::test_gate[smoke_safe-rejection_rate]" in result.outlines


@pytest.mark.parametrize("place", ["arguments", "environment"])
def test_a_path_after_a_space_that_misleads_pytest_is_answered_with_the_line_to_write(
    project: pytest.Pytester, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (project.path / "conftest.py").unlink()
    args = ["--candidate", str(checkpoint), "--judge", "keyword", "-k", "a or b"]
    if place == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", f"--candidate {checkpoint}")
        args = args[2:]
    result = project.runpytest_subprocess(*INSTALLED, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = f"ERROR: write: pytest *--candidate={checkpoint} *--judge keyword -k 'a or b'"
    result.stderr.fnmatch_lines([line])


def test_the_plugin_costs_little_where_there_are_no_gates() -> None:
    code = "import pytest, sys; old = set(sys.modules); import refusal_checks.plugin;"
    code += "print(*sorted(set(sys.modules) - old))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "refusal_checks",
        "refusal_checks.plugin",
        "refusal_checks.plugin.inconclusive",
        "refusal_checks.plugin.xdist",
        "refusal_checks.run",
        "refusal_checks.run.options",
        "refusal_checks.run.options.call",
    ]


def test_a_conftest_py_may_load_the_installed_plugin_again(
    project: pytest.Pytester, server: FakeServer
) -> None:
    args = (f"--candidate={server.url}#fake", "--judge=keyword", "--samples=1", "-k", "smoke_safe")
    project.runpytest_subprocess(*INSTALLED, *args).assert_outcomes(passed=1)
