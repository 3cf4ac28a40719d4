"""What the command says of an error: one harmless message on stderr, and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from refusal_checks.cli import EXIT_USER, main
from tests.report_runs import refusals, write_run


def fails(monkeypatch: pytest.MonkeyPatch, *args: str | Path) -> int:
    """The exit code of a command that ends in an error."""
    monkeypatch.setattr(sys, "argv", ["refusal-checks", *map(str, args)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_damaged_file_is_named_and_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", {"unsafe": list(refusals("unsafe", 2))})
    path = run.path / "records" / "unsafe.jsonl"
    hostile = "##[error]forged \\u202e"
    path.write_text(path.read_text().replace('"labelled"', f'"{hostile}"'))
    report = tmp_path / "report.html"
    assert fails(monkeypatch, "report", "html", report, run.path) == EXIT_USER
    shown = capsys.readouterr().err
    assert shown.startswith(f"refusal-checks: {path}: not a run's records: ")
    assert shown.count("\n") == 1
    assert "line 1: answers.0.judgement" in shown
    assert "##[" not in shown
    assert not report.exists()


def test_what_a_message_names_does_not_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "##[error]forged \x1b[31m"
    assert fails(monkeypatch, "report", "html", tmp_path / "report.html", run) == EXIT_USER
    shown = capsys.readouterr().err
    assert "forged" in shown
    assert "##[" not in shown
    assert "\x1b" not in shown


def test_a_command_without_its_arguments_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(monkeypatch, "report", "html") == 2
    assert "FILE" in capsys.readouterr().err
