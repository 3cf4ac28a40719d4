"""What a gate run shows while it goes on: bars on a terminal, lines elsewhere."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyte
import pytest
from pyte.screens import Char

from tests.plugin.conftest import UNVERIFIED, Project, in_both_modes
from tests.support.forked import for_pytest

pytestmark = pytest.mark.slow

COLUMNS, ROWS = 90, 14
OFTEN = """
from refusal_checks.plugin import progress_display
from refusal_checks.reports import progress
progress_display.EVERY = progress_display.REFRESH = 0.1
progress.LEAST_SECONDS = 0.5
"""


@dataclass
class Terminal:
    """A small terminal: everything that scrolled out of it or is on it, and how it looked."""

    screen: pyte.HistoryScreen = field(
        default_factory=lambda: pyte.HistoryScreen(COLUMNS, ROWS, history=5000)
    )
    frames: list[str] = field(default_factory=list)
    status: int = 0

    def run(self, *command: str) -> None:
        """Run a command in it."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        fixed = ("PY_COLORS", "COLUMNS")  # by the project
        environment = {
            name: value for name, value in os.environ.items() if name not in fixed
        }
        environment["TERM"] = "xterm-256color"
        process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        stream = pyte.ByteStream(self.screen)
        for read in _reads(master):
            stream.feed(read)
            self.frames.append("\n".join(self.screen.display))
        self.status = process.wait()
        os.close(master)

    @property
    def rows(self) -> list[Mapping[int, Char]]:
        """All rows, from the first."""
        on_it = (self.screen.buffer[y] for y in range(ROWS))
        return [*self.screen.history.top, *on_it]

    @property
    def lines(self) -> list[str]:
        """The texts of all rows."""
        return [
            "".join(row[x].data for x in range(COLUMNS)).rstrip() for row in self.rows
        ]


def _reads(master: int) -> Iterator[bytes]:
    while True:
        try:
            found = os.read(master, 65536)
        except OSError:  # what Linux says where nobody writes any more
            return
        if not found:
            return
        yield found


@pytest.fixture
def slow(project: Project) -> tuple[str, ...]:
    """The options of a run that takes a moment, and looks often at how far it has come.

    Few prompts at once: in two great waves there would be no speed to measure.
    """
    project.conftest(OFTEN)
    project.server.delay = 0.2
    models = ("--candidate", project.model, "--judge", project.model)
    return (*models, "--samples", "1", "--set", "limits.in_flight=10")


@in_both_modes
def test_bars_come_and_go_below_pytest_s_own_lines(
    slow: tuple[str, ...], mode: tuple[str, ...]
) -> None:
    terminal = Terminal()
    terminal.run(sys.executable, "-m", "pytest", *for_pytest(slow), *mode)
    assert terminal.status == UNVERIFIED
    during = "\n".join(terminal.frames)
    for part in ("smoke_unsafe", "/80 judged", " in flight", "answers/s", " left"):
        assert part in during
    shown = terminal.lines
    assert not [line for line in shown if "/80 judged" in line or "answers/s" in line]
    dots = [line for line in shown if "..." in line and "[100%]" in line]
    assert len(dots) == 1
    assert dots[0].startswith("..." if "-n2" in mode else "test_gates.py ...")
    assert any(
        line.startswith("pass ") and line.endswith(" smoke_unsafe-rejection_rate")
        for line in shown
    )
    rows = zip(terminal.rows, shown, strict=True)
    assert {row[0].fg for row, line in rows if line.startswith("pass ")} == {"green"}


def test_without_a_terminal_there_are_lines(
    slow: tuple[str, ...], project: Project
) -> None:
    result = project.run(*slow, "--junitxml", "report.xml")
    result.assert_outcomes(passed=3)
    result.stdout.re_match_lines(
        [r"smoke_unsafe \d+/80 judged.*answers/s.*; about \d+ s left"]
    )
    assert "\x1b" not in result.stdout.str()
    assert "judged" not in (project.path / "report.xml").read_text()


def test_quiet_runs_are_quiet(slow: tuple[str, ...], project: Project) -> None:
    result = project.run(*slow, "-q", "-k", "smoke_safe")
    assert result.ret == UNVERIFIED
    assert "/80 judged" not in result.stdout.str() + result.stderr.str()


def test_pytest_s_capture_may_be_missing(project: Project) -> None:
    project.gate("-p", "no:capture", "-k", "smoke_safe").assert_outcomes(passed=1)
