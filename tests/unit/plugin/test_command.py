"""The arguments with which ``refusal-checks gate`` calls pytest."""

import shlex
from pathlib import Path

import pytest

from refusal_checks.plugin.gate_command import arguments
from refusal_checks.results.project import RUNS_KEY, RUNS_VARIABLE


@pytest.mark.parametrize("variable", ["", "moved here"])
def test_runs_are_where_the_other_commands_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(RUNS_VARIABLE, variable)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    found = [word for word in arguments(tmp_path, ()) if word.startswith(RUNS_KEY)]
    quoted = f"{RUNS_KEY}={shlex.quote(str(tmp_path / variable))}"
    assert found == ([quoted] if variable else [])
