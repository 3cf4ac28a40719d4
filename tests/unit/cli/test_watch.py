"""``refusal-checks watch``, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.reports.watch.server import Server
from refusal_checks.run.options.command_line import REDACT
from tests.report_runs import usual


@pytest.mark.parametrize(
    ("words", "variable", "redacted"), [((), "", False), (("--redact",), "", True), ((), "1", True)]
)
def test_texts_are_kept_back_where_that_is_wanted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variable: str,
    redacted: bool,
) -> None:
    monkeypatch.setenv(REDACT, variable)
    seen: list[bytes] = []
    monkeypatch.setattr(Server, "wait", lambda server: seen.append(server.state(0)))
    folder = usual(tmp_path / "20260101-000000-1").path
    done = CliRunner().invoke(application(), ["watch", str(folder), *words])
    assert done.exit_code == 0, done.output
    assert "press Ctrl-C to stop: no run is going on there" in done.output
    assert (b"Request " not in seen[0]) is redacted
