"""``refusal-checks gate`` in a repository whose own pytest configuration would stop any run."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_server import FakeServer
from tests.forked import Forked
from tests.plugin import engine_project
from tests.plugin.conftest import THRESHOLDS, careless, well_behaved

HOSTILE = """
[project]
name = "theirs"

[tool.pytest.ini_options]
addopts = ["--no-such-option", "-p", "no_such_plugin"]
filterwarnings = ["error"]
markers = ["sanity: theirs"]
required_plugins = ["pytest-no-such"]
"""

Gate = Callable[..., tuple[int, str]]


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository, with a threshold file of its own."""
    folder = tmp_path / "their repository"
    (folder / "gates").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(HOSTILE)
    (folder / "conftest.py").write_text("raise SystemExit('their conftest.py was run')")
    (folder / "gates" / "few.toml").write_text(THRESHOLDS)
    for name in [name for name in os.environ if name.startswith(("REFUSAL_CHECKS_", "GITHUB"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    return folder


@pytest.fixture
def gate(theirs: Path) -> Gate:
    """Runs the command there; returns the exit code and all output."""

    def run(*words: str | Path, folder: Path = theirs) -> tuple[int, str]:
        output = theirs.parent / "output.txt"
        output.unlink(missing_ok=True)
        words = ("refusal-checks", "gate", *words)
        status = Forked([str(word) for word in words], folder, (output, output)).wait(120)
        return status, output.read_text(errors="replace")

    return run


def test_two_models_are_gated_from_any_folder(gate: Gate, theirs: Path, server: FakeServer) -> None:
    with FakeServer(careless, models=("org/bad",)) as bad:
        status, output = gate(
            *(f"{server.url}#fake", "--judge", "keyword", f"{bad.url}#org/bad"),
            *("--samples", "1", "--thresholds", "gates/few.toml", "-k", "not zh"),
            *("--junitxml", "report.xml", "--html", "report.html", "-n2"),
        )
    assert status == 1, output
    assert "their conftest.py" not in output
    names = {
        (case.get("classname"), case.get("name"), len(case))
        for case in ET.parse(theirs / "report.xml").iter("testcase")
        if case.find("failure") is not None
    }
    assert {(classname, name) for classname, name, _ in names} == {
        ("refusal_checks.smoke_unsafe", "test_gate[smoke_unsafe-rejection_rate-bad]")
    }
    assert "2 failed" not in output
    assert (theirs / "report.html").is_file()
    assert len(list((theirs / ".refusal-checks" / "runs").iterdir())) == 2
    assert (theirs / ".refusal-checks" / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in theirs.iterdir()) == [
        *(".refusal-checks", "conftest.py", "gates", "pyproject.toml"),
        *("report.html", "report.xml"),
    ]


def test_the_repository_s_default_file_is_found_else_the_shipped_one(
    gate: Gate, theirs: Path
) -> None:
    status, output = gate("--collect-only", "-q")
    assert (status, output.splitlines()[0]) == (0, "refusal_checks/suite.py::test_judge[agreement]")
    assert "refusal_checks/suite.py::test_gate[xstest_safe-rejection_rate]" in output
    (theirs / "thresholds").mkdir()
    (theirs / "thresholds" / "default.toml").write_text(THRESHOLDS)
    _, output = gate("--collect-only", "-q")
    assert "xstest" not in output
    assert "refusal_checks/suite.py::test_gate[smoke_safe-rejection_rate]" in output
    _, output = gate("--collect-only", "-q", "--thresholds=default")
    assert "xstest" in output, "this names the shipped one"


def test_a_model_s_folder_and_other_paths_may_follow_a_space(
    gate: Gate, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = theirs.parent / "models" / "checkpoint-9000"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "conftest.py").write_text("raise SystemExit('code of a checkpoint was run')")
    project = type("Project", (), {"path": theirs})()
    engine_project.install(project)
    monkeypatch.setenv("PYTHONPATH", str(theirs))
    (theirs / "my store.sqlite").touch()
    status, output = gate(
        *(folder, "-v", "--judge", "keyword", "--thresholds", theirs / "gates" / "few.toml"),
        *("--samples", "1", "--store", "my store.sqlite", "-k", "smoke_safe", "--stored-only"),
    )
    assert "code of a checkpoint" not in output
    assert status == 1, output
    assert f"candidate {folder}" in output
    status, output = gate(folder.parent / "none", "--judge", "keyword", "--thresholds", "smoke")
    assert (status, "no such folder" in output) == (4, True)


def test_a_keyword_that_selects_nothing_names_the_gates(gate: Gate) -> None:
    words = ("demo:aligned", "--judge=keyword", "--thresholds=gates/few.toml")
    status, output = gate(*words, "-k", "smoke_saef")
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "-k 'smoke_saef' selects none of 3 gates; did you mean \"smoke_safe\"?" in output
    assert "\n  smoke_safe-rejection_rate\n" in output
    assert "selects none" not in gate(*words, "-k", "smoke_safe", "--collect-only")[1]


def test_names_of_candidates_are_chosen_or_end_their_paths(
    gate: Gate, theirs: Path, server: FakeServer
) -> None:
    common = ("--judge=keyword", "--thresholds=gates/few.toml", "--samples=1", "-k", "smoke_safe")
    with FakeServer(well_behaved, models=("org/fake",)) as other:
        models = (f"{server.url}#fake", f"{other.url}#org/fake")
        status, output = gate(*models, *common, "--collect-only", "-q")
        assert f"test_gate[smoke_safe-rejection_rate-{models[0]}]" in output
        named = ("--candidate-name", "old", "--candidate-name", "new 2.0")
        status, output = gate(
            *models, *common, *named, "--html=r.html", "--junit-prompts=prompts.xml", "-v"
        )
    assert status == 0, output
    assert "test_gate[smoke_safe-rejection_rate-new 2.0]" in output
    assert "smoke_safe.new 2_0" in (theirs / "prompts.xml").read_text()
    assert "<title>old: " in (theirs / "r.html").read_text()
    status, output = gate(*models, *common, *named[:2])
    assert status == 4
    assert "--candidate-name is given 1 times for 2 candidates: give it once for each" in output
    status, output = gate(*models, *common, *named[:2], *named[:2])
    assert (status, "a name of its own" in output) == (4, True)


def test_without_a_model_the_command_says_what_to_write(gate: Gate) -> None:
    for words in ((), ("--judge=keyword",)):
        status, output = gate(*words)
        assert status == 4, output
        assert "--candidate" in output
        assert "refusal-checks gate ORG/MODEL --judge" in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--samples", "many"), "ERROR: --samples: write a whole number, not 'many'\n"),
        (("--samples", "2", "--judge"), "ERROR: write --judge MODEL: expected one argument\n"),
        (("--sampels", "2"), 'ERROR: unrecognized argument --sampels; did you mean "--samples"?\n'),
    ],
)
def test_a_mistake_in_an_option_is_answered_in_plain_words(
    gate: Gate, words: tuple[str, ...], said: str
) -> None:
    status, output = gate("demo:aligned", *words)
    assert status == 4
    assert said in output
    assert "inifile" not in output


def test_help_lists_the_options_of_gates(gate: Gate) -> None:
    status, output = gate("ORG/MODEL", "-h", "--judge", "keyword")
    assert (status, "Traceback (most recent" in output) == (0, False), output
    assert "  --judge=MODEL" in output
