"""Where a project keeps its runs, as its pytest configuration says."""

from pathlib import Path

import pytest

from refusal_checks.results.project import (
    FOLDER_KEY,
    RUNS_KEY,
    RUNS_VARIABLE,
    configured_folders,
    default_folder,
    default_runs_folder,
    runs_option,
)
from refusal_checks.results.run_folder import ROOT

FORMS = {
    "pytest.toml": f'[pytest]\n{RUNS_KEY} = ["elsewhere/runs"]\n',
    ".pytest.toml": f'[pytest]\n{RUNS_KEY} = ["elsewhere/runs"]\n',
    "pytest.ini": f"[pytest]\n{RUNS_KEY} = elsewhere/runs\n",
    ".pytest.ini": f"[pytest]\n{RUNS_KEY} = elsewhere/runs\n",
    "pyproject.toml": f'[tool.pytest.ini_options]\n{RUNS_KEY} = "elsewhere/runs"\n',
    "tox.ini": f"[pytest]\n{RUNS_KEY}: elsewhere/runs\n",
    "setup.cfg": f"[tool:pytest]\n{RUNS_KEY} = elsewhere/runs\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_pytest_configuration_is_read_from_below_it(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(FORMS[name])
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    elsewhere = {RUNS_KEY: tmp_path / "elsewhere" / "runs"}
    assert configured_folders(below) == configured_folders(tmp_path) == elsewhere
    assert default_runs_folder(below) == elsewhere[RUNS_KEY]


def test_the_nearest_configuration_counts_and_files_without_a_section_do_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text(FORMS["pytest.ini"])
    near = tmp_path / "near"
    near.mkdir()
    (near / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (near / "tox.ini").write_text("[tox]\n")
    assert configured_folders(near) == {RUNS_KEY: tmp_path / "elsewhere" / "runs"}
    (near / "pytest.ini").write_text("")
    assert configured_folders(near) == {}


@pytest.mark.parametrize(
    ("file", "lines", "expected"),
    [
        ("pytest.ini", "[pytest]\nrefusal_checks_runs = 'the runs'", "the runs"),
        ("pytest.ini", "[pytest]\nrefusal_checks_folder = own", "own/runs"),
        ("pytest.ini", "[pytest]\nrefusal_checks_runs = /tmp/runs", "/tmp/runs"),
        ("pytest.ini", "[pytest]\nrefusal_checks_runs =", None),
        (
            "pyproject.toml",
            f'[tool.pytest.ini_options]\n{RUNS_KEY} = ["my runs"]',
            "my runs",
        ),
        ("pyproject.toml", f'[tool.pytest]\n{RUNS_KEY} = ["my runs"]', "my runs"),
    ],
)
def test_values_are_read_as_pytest_reads_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    lines: str,
    expected: str | None,
) -> None:
    monkeypatch.delenv(RUNS_VARIABLE, raising=False)
    (tmp_path / file).write_text(f"{lines}\n")
    assert default_runs_folder(tmp_path) == (tmp_path / expected if expected else ROOT)


@pytest.mark.parametrize(
    "content",
    [
        "[pytest\n",
        "\x00",
        "%s = %(x)s\n",
        "pytest = 1\n",
        "tool.pytest.ini_options = [1]\n",
    ],
)
def test_a_broken_configuration_is_pytests_to_complain_of(
    tmp_path: Path, content: str
) -> None:
    for name in FORMS:
        (tmp_path / name).write_text(content)
    assert configured_folders(tmp_path) == {}


def test_the_key_of_runs_wins_over_the_variable_and_both_over_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(RUNS_VARIABLE, raising=False)
    assert default_runs_folder() == ROOT
    monkeypatch.setenv(RUNS_VARIABLE, "  ")
    assert default_runs_folder() == ROOT
    monkeypatch.setenv(RUNS_VARIABLE, "~/runs")
    assert default_runs_folder() == Path.home() / "runs"
    assert runs_option("") == "$REFUSAL_CHECKS_RUNS"
    assert runs_option("of a run file") == "--runs"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{FOLDER_KEY} = own\n")
    assert default_runs_folder() == Path.home() / "runs"
    monkeypatch.delenv(RUNS_VARIABLE)
    assert default_runs_folder() == tmp_path / "own" / "runs"
    assert default_folder() == tmp_path / "own"
    monkeypatch.setenv(RUNS_VARIABLE, "moved")
    (tmp_path / "pytest.ini").write_text(FORMS["pytest.ini"])
    assert default_runs_folder() == tmp_path / "elsewhere" / "runs"
