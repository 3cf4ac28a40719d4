"""How the command ends: with one harmless message if something is wrong."""

import sys
from pathlib import Path

import pytest

from refusal_checks.cli import main


def ended(monkeypatch: pytest.MonkeyPatch, *args: str | Path) -> object:
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["refusal-checks", *map(str, args)])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_what_is_wrong_is_shown_without_its_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\x1b[31m\u202e##[error]"
    folder.mkdir()
    assert ended(monkeypatch, "runs", "list", folder) == 4
    message = capsys.readouterr().err
    assert message.startswith("refusal-checks: ")
    assert "summary.json: cannot be read" in message
    assert not {"\x1b", "\u202e"} & set(message)
    assert "##[" not in message


def test_what_the_system_refuses_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "x" * 300
    assert ended(monkeypatch, "runs", "list", name) == 1
    assert capsys.readouterr().err == (
        f"refusal-checks: {name}: File name too long; fix this and run the same command again\n"
    )


@pytest.mark.parametrize(
    ("words", "code"), [((), 4), (("--help",), 0), (("--version",), 0)]
)
def test_help_is_shown_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
) -> None:
    assert ended(monkeypatch, *words) == code
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("Usage:") == (words != ("--version",))
    assert "refusal-checks:" not in shown.err
