"""The arguments with which ``refusal-checks gate`` calls pytest."""

import shlex
from pathlib import Path

import pytest

from refusal_checks.plugin.gate_command import arguments
from refusal_checks.results.project import FOLDER_KEY, RUNS_KEY, RUNS_VARIABLE


@pytest.mark.parametrize(
    ("settings", "variable", "runs"),
    [
        ("", None, None),
        ("", "moved here", "moved here"),
        (f"{FOLDER_KEY} = own", None, "own/runs"),
        (f"{FOLDER_KEY} = own\n{RUNS_KEY} = there", "moved", "there"),
    ],
)
def test_runs_are_where_the_other_commands_look(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    variable: str | None,
    runs: str | None,
) -> None:
    monkeypatch.delenv(RUNS_VARIABLE, raising=False)
    if variable:
        monkeypatch.setenv(RUNS_VARIABLE, variable)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{settings}\n")
    found = [word for word in arguments(tmp_path, ()) if word.startswith(RUNS_KEY)]
    expected = [f"{RUNS_KEY}={shlex.quote(str(tmp_path / runs))}"] if runs else []
    assert found == expected
