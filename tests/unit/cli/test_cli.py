"""How the command ends: with one harmless message if something is wrong."""

import sys
from pathlib import Path

import pytest

from refusal_checks import __main__
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


MISTAKES = {
    "sample-for-labels --of refusals": "'--of' needs a number: --of refusals 20.",
    "gate A.toml replay:said.csv": "write --thresholds A.toml: a run file is not a model",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, *line.split()) == 4
    assert MISTAKES[line] in capsys.readouterr().err


def test_an_interrupt_while_python_imports_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        def find_spec(self, name: str, *rest: object) -> None:
            if name == "refusal_checks.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "refusal_checks.cli")
    monkeypatch.setattr("sys.meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as caught:
        __main__.main()
    assert caught.value.code == 130
    assert capsys.readouterr() == ("", "")


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
