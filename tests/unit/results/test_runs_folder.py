"""Where the runs of a project are: configured, in a variable, or where they usually are."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusal_checks import load_run
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.results.run_folder import ROOT
from refusal_checks.results.runs_folder import (
    FOLDER,
    KEY,
    VARIABLE,
    configured,
    require_writable,
    usual,
)

FORMS = {
    "pytest.toml": f'[pytest]\n{KEY} = ["elsewhere/runs"]\n',
    ".pytest.toml": f'[pytest]\n{KEY} = ["elsewhere/runs"]\n',
    "pytest.ini": f"[pytest]\n{KEY} = elsewhere/runs\n",
    ".pytest.ini": f"[pytest]\n{KEY} = elsewhere/runs\n",
    "pyproject.toml": f'[tool.pytest.ini_options]\n{KEY} = "elsewhere/runs"\n',
    "tox.ini": f"[pytest]\n{KEY}: elsewhere/runs\n",
    "setup.cfg": f"[tool:pytest]\n{KEY} = elsewhere/runs\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_pytest_configuration_is_read_from_below_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FORMS[name])
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    elsewhere = {KEY: tmp_path / "elsewhere" / "runs"}
    assert configured(below) == configured(tmp_path) == elsewhere
    assert usual(below) == elsewhere[KEY]


def test_the_nearest_configuration_counts_and_files_without_a_section_do_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text(FORMS["pytest.ini"])
    near = tmp_path / "near"
    near.mkdir()
    (near / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (near / "tox.ini").write_text("[tox]\n")
    assert configured(near) == {KEY: tmp_path / "elsewhere" / "runs"}
    (near / "pytest.ini").write_text("")
    assert configured(near) == {}


@pytest.mark.parametrize("name", ["pytest.toml", ".pytest.toml"])
def test_pytest_s_own_toml_comes_first_even_if_it_is_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{KEY} = ignored\n")
    (tmp_path / name).write_text(FORMS[name])
    assert configured(tmp_path) == {KEY: tmp_path / "elsewhere" / "runs"}
    for content in ("", "[other]\n"):
        (tmp_path / name).write_text(content)
        assert configured(tmp_path) == {}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("refusal_checks_runs = 'the runs'", "the runs"),
        ("refusal_checks_folder = own", "own/runs"),
        ("refusal_checks_folder = own\nrefusal_checks_runs = moved", "moved"),
        ("refusal_checks_runs = /tmp/runs", "/tmp/runs"),
        ("refusal_checks_runs =", None),
    ],
)
def test_values_are_read_as_pytest_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, expected: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{lines}\n")
    assert usual(tmp_path) == (tmp_path / expected if expected else ROOT)


@pytest.mark.parametrize("table", ["tool.pytest.ini_options", "tool.pytest"])
def test_lists_of_toml_are_read(tmp_path: Path, table: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[{table}]\n{KEY} = ["the runs"]\n')
    assert configured(tmp_path) == {KEY: tmp_path / "the runs"}


BROKEN = (
    *("[pytest\n", "\x00", "%s = %(x)s\n"),
    *("tool = 1\n", "[tool.pytest]\nini_options = 3\n", "tool.pytest.ini_options = [1]\n"),
)


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_configuration_is_pytests_to_complain_of(tmp_path: Path, content: str) -> None:
    for name in FORMS:
        (tmp_path / name).write_text(content)
    assert configured(tmp_path) == {}


@pytest.mark.parametrize("content", ["pytest = 1\n", "[[pytest]]\nx = 1\n"])
def test_a_table_of_another_shape_is_pytests_to_complain_of(tmp_path: Path, content: str) -> None:
    (tmp_path / "pytest.toml").write_text(content)
    assert configured(tmp_path) == {}


def test_the_key_of_runs_wins_over_the_variable_and_both_over_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert usual() == ROOT
    monkeypatch.setenv(VARIABLE, "  ")
    assert usual() == ROOT
    monkeypatch.setenv(VARIABLE, "~/runs")
    assert usual() == Path.home() / "runs"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{FOLDER} = own\n")
    assert usual() == Path.home() / "runs"
    monkeypatch.delenv(VARIABLE)
    assert usual() == tmp_path / "own" / "runs"
    monkeypatch.setenv(VARIABLE, "moved")
    (tmp_path / "pytest.ini").write_text(FORMS["pytest.ini"])
    assert usual() == tmp_path / "elsewhere" / "runs"


def test_a_run_is_opened_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "moved")
    run = tmp_path / "moved" / "20260101-000000-1"
    run.mkdir(parents=True)
    assert load_run().path.resolve() == run
    with pytest.raises(DataError, match="no runs found in other"):
        load_run(runs="other")


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_writable(tmp_path / "new" / "runs", "--runs")
    assert (tmp_path / "new" / "runs").is_dir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError) as caught:
            require_writable(path, "--runs")
        assert str(caught.value).startswith(f"--runs {path}: name a folder that can be written: ")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UserError, match="written: Permission denied"):
        require_writable(tmp_path, "--runs")
