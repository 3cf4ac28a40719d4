"""Ctrl-C ends a process in time, whatever it is doing; without it, nothing is ended."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from refusal_checks.evaluation import interrupts
from tests.processes import lives, wait_until

BUSY = {
    "holds the interpreter": """
        import re, threading
        slow = threading.Thread(target=lambda: re.match('(a|a)*b', 'a' * 60))
        slow.start()
        slow.join()""",
    "swallows the interrupt": """
        while True:
            try: time.sleep(60)
            except BaseException: pass""",
}
SCRIPT = """
import time
from refusal_checks.evaluation import interrupts
{before}
watch = interrupts.Watch()
print("ready", flush=True)
{busy}
"""


def started(busy: str, before: str = "") -> subprocess.Popen[str]:
    lines = [line.removeprefix(" " * 8) for line in busy.strip("\n").split("\n")]
    script = SCRIPT.format(busy="\n".join(lines), before=before)
    session = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert session.stdout is not None
    assert session.stdout.readline() == "ready\n"
    time.sleep(0.1)
    return session


def end(
    session: subprocess.Popen[str],
    interrupts_at: list[float],
    number: int = signal.SIGINT,
) -> float:
    """Seconds from the first interrupt until the process has ended, and its watcher too."""
    watchers = psutil.Process(session.pid).children()
    assert len(watchers) == 1
    begun = time.monotonic()
    for pause in interrupts_at:
        time.sleep(pause)
        session.send_signal(number)
    session.communicate(timeout=30)
    seconds = time.monotonic() - begun
    assert wait_until(lambda: not lives(watchers[0]), 5)
    return seconds


@pytest.mark.parametrize("name", BUSY)
def test_two_interrupts_end_a_process_sooner_than_one(name: str) -> None:
    session = started(BUSY[name], "interrupts.HURRY = 0.2")
    assert end(session, [0, 0.2]) < interrupts.PATIENCE - 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_interrupt_ends_a_process_once_its_patience_is_over(number: int) -> None:
    session = started(BUSY["swallows the interrupt"], "interrupts.PATIENCE = 0.5")
    assert 0.5 <= end(session, [0], number) < interrupts.PATIENCE - 1
    assert session.returncode == -signal.SIGKILL


def test_what_a_process_ignores_does_not_end_it() -> None:
    session = started(
        "time.sleep(0.8)", "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    )
    end(session, [0], signal.SIGHUP)
    assert session.returncode == 0


def watching() -> list[psutil.Process]:
    """Of this process; one has no command line until it has loaded its program."""
    return [
        p for p in psutil.Process().children() if interrupts.__file__ in p.cmdline()
    ]


def test_a_watch_that_is_closed_leaves_the_process_alone() -> None:
    watch = interrupts.Watch()
    before = signal.getsignal(signal.SIGINT)
    assert wait_until(lambda: len(watching()) == 1)
    (watcher,) = watching()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    watch.close()
    watch.close()
    assert not lives(watcher)
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGINT) is before
