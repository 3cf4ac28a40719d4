"""The kinds of fault: each is a function that disturbs one run of a project."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tests.support.forked import Forked
from tests.support.processes import words
from tools.chaos.project import ANSWERS, ENGINE, PROMPTS, Project, ended, pause_until
from tools.chaos.server import CORE

DELAY = 0.02
"""Seconds that an answer takes while a run is disturbed."""

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSTOP)
WORKERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP)
STOPPED = 3.0
"""Most seconds until what was stopped by SIGSTOP goes on."""

Pick = Callable[[psutil.Process], list[psutil.Process]]


@dataclass(frozen=True)
class Disturbed:
    """How a disturbed run ended.

    Attributes:
        signals: number of signals sent.
        in_time: True if the run ended by itself.
    """

    signals: int
    in_time: bool


class CannotMountError(Exception):
    """This user may not mount a file system."""


Disturb = Callable[[Project, random.Random], Disturbed]


def _children(
    session: psutil.Process, matches: Callable[[list[str]], bool]
) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [
            child for child in session.children(recursive=True) if matches(words(child))
        ]
    return []


def _is_guard(line: list[str]) -> bool:
    return "refusal_checks.engines.supervisor" in line


def itself(session: psutil.Process) -> list[psutil.Process]:
    return [session]


def workers(session: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [
            child
            for child in session.children()
            if words(child) and not _is_guard(words(child))
        ]
    return []


def guards(session: psutil.Process) -> list[psutil.Process]:
    return _children(session, _is_guard)


def servers(session: psutil.Process) -> list[psutil.Process]:
    def is_server(line: list[str]) -> bool:
        return any(word.startswith("vllm.entrypoints.") for word in line)

    return _children(session, lambda line: is_server(line) and not _is_guard(line))


def cores(session: psutil.Process) -> list[psutil.Process]:
    return _children(session, lambda line: line[:1] == [CORE])


def killing(
    pick: Pick,
    numbers: tuple[signal.Signals, ...],
    *args: str,
    engine: bool,
    group: bool = False,
) -> Disturb:
    """Make a fault that sends one of these signals to one process, once there are some answers.

    With ``group``, the run leads a process group, as in a terminal, and the whole group gets the
    signal.
    """
    prepare = os.setsid if group else None

    def disturb(project: Project, chance: random.Random) -> Disturbed:
        number, moment = chance.choice(numbers), chance.randrange(ANSWERS + PROMPTS)
        if not engine:
            with project.serving(DELAY):
                run = project.start(project.attached, *args, prepare=prepare)
                return _kill(run, number, moment, project, chance)
        run = project.start(ENGINE, *args, delay=DELAY, prepare=prepare)
        return _kill(run, number, moment, project, chance)

    def _kill(
        run: Forked,
        number: signal.Signals,
        moment: int,
        project: Project,
        chance: random.Random,
    ) -> Disturbed:
        sent = 0
        if pause_until(lambda: len(project.given) >= moment, run):
            with suppress(psutil.Error, OSError):
                session = psutil.Process(run.pid)
                if pause_until(lambda: bool(pick(session)), run):
                    pid, send = (
                        chance.choice(pick(session)).pid,
                        os.killpg if group else os.kill,
                    )
                    send(pid, number)
                    sent = 1
                    if number == signal.SIGSTOP:
                        time.sleep(chance.uniform(0, STOPPED))
                        send(pid, signal.SIGCONT)
        return Disturbed(sent, ended(run))

    return disturb


def dying_candidate(project: Project, chance: random.Random) -> Disturbed:
    """The server that a run attaches to dies at its n-th answer."""
    with project.serving(DELAY) as server:
        run = project.start(project.attached, prepare=quick_retries)
        sent = pause_until(lambda: len(project.given) >= 1, run)
        moment = chance.randrange(1, ANSWERS + PROMPTS)
        pause_until(lambda: len(project.given) >= moment, run)
        server.kill()
        return Disturbed(int(sent), ended(run))


def quick_retries() -> None:
    """Code for a run's process: wait less before another attempt."""
    from refusal_checks.models.client import server_errors

    server_errors.WAIT_INITIAL = 0.02


def full_disk(project: Project, chance: random.Random) -> Disturbed:
    """The store and the run's files lie on a small disk."""
    folder = project.store.parent
    folder.mkdir(exist_ok=True)
    room = chance.randrange(60, 400)
    _mount(folder, f"size={room}k")
    run = _undisturbed(project)
    _keep(folder)
    return run


def limited_files(project: Project, chance: random.Random) -> Disturbed:
    """No file may grow beyond a size limit."""
    limit = chance.randrange(20_000, 120_000)

    prepare = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    return _undisturbed(project, prepare)


def read_only(project: Project, chance: random.Random) -> Disturbed:
    """A run is killed, and the next one finds the store on a read-only file system."""
    folder = project.store.parent
    folder.mkdir(exist_ok=True)
    _mount(folder, "size=50m")
    killed = killing(itself, SIGNALS[:1], engine=False)(project, chance)
    _remount(folder, "ro")
    again = _undisturbed(project)
    _remount(folder, "rw")
    _keep(folder)
    return Disturbed(killed.signals, killed.in_time and again.in_time)


def slow_store(project: Project, chance: random.Random) -> Disturbed:
    """Another process holds the store for half a second, again and again."""
    with project.serving(DELAY):
        run = project.start(project.attached)
        pause_until(lambda: len(project.given) > 0, run)
        while run.is_alive() and project.store.exists():
            with suppress(sqlite3.Error), closing(_exclusive(project.store)) as file:
                time.sleep(0.5)
                file.rollback()
            time.sleep(chance.random() / 5)
        return Disturbed(0, ended(run))


def _exclusive(store: Path) -> sqlite3.Connection:
    file = sqlite3.connect(store, timeout=1, isolation_level=None)
    file.execute("BEGIN IMMEDIATE")
    return file


def jumping_clock(project: Project, chance: random.Random) -> Disturbed:
    """The clock jumps by up to ten years, to and fro."""
    return _undisturbed(project, partial(_jumpy, chance.randrange(10**6)))


def _jumpy(seed: int) -> None:
    """Code for a run's process: make its clock jump."""
    real, jumps = time.time, random.Random(seed)
    time.time = lambda: (
        real() + jumps.choice((0, -1, 1)) * jumps.randrange(10 * 365 * 86_400)
    )


def two_runs(project: Project, chance: random.Random) -> Disturbed:
    """Two runs want a store: one of them is ended, perhaps the one that has it."""
    ending = [number for number in SIGNALS if number != signal.SIGSTOP]
    moment, number = chance.randrange(ANSWERS + PROMPTS), chance.choice(ending)
    with project.serving(DELAY):
        runs = [project.start(project.attached) for _ in range(2)]
        pause_until(lambda: len(project.given) >= moment, runs[0])
        with suppress(OSError):
            os.kill(runs[0].pid, number)
        in_time = ended(runs[1])
        return Disturbed(1, ended(runs[0]) and in_time)


def changed_rows(project: Project, chance: random.Random) -> Disturbed:
    """A run is killed, and words, verdicts and digests in its store are changed."""
    killed = killing(itself, SIGNALS[:1], engine=False)(project, chance)
    if project.store.exists():
        with closing(sqlite3.connect(project.store)) as file:
            for table in ("completions", "judgements"):
                for edit in (
                    "value = replace(value, 'cannot', 'can')",
                    "value = replace(value, 'compliance', 'refusal')",
                    "value = CAST(X'ff' AS TEXT)",
                    "digest = NULL",
                ):
                    rest = chance.randrange(5)
                    file.execute(f"UPDATE {table} SET {edit} WHERE rowid % 5 = {rest}")
            file.commit()
    return killed


def damaged_file(project: Project, chance: random.Random) -> Disturbed:
    """A run is killed, and its store damaged; the file is moved away once a run says so."""
    killed = killing(itself, SIGNALS[:1], engine=False)(project, chance)
    if project.store.exists():
        with closing(
            sqlite3.connect(project.store)
        ) as whole:  # its log goes into the file
            whole.execute("SELECT * FROM sqlite_master").fetchall()
        with project.store.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for _ in range(chance.randrange(1, 20)):
                file.seek(chance.randrange(max(1, size)))
                file.write(chance.randbytes(chance.randrange(1, 200)))
    again = _undisturbed(project)
    # The message is wrapped, at a width that depends on its words.
    if "name another one with --store" in " ".join(project.said.split()):
        for path in project.store.parent.glob("store.sqlite*"):
            path.unlink()
    project.forget()
    return Disturbed(killed.signals, killed.in_time and again.in_time)


def handing_out(project: Project, chance: random.Random) -> Disturbed:
    """One or both xdist workers are killed as the tests are handed out."""
    killed, moment = chance.randrange(1, 3), chance.randrange(1, 3)
    conftest = project.folder / "conftest.py"
    plain = conftest.read_text()
    conftest.write_text(plain + LOST.format(killed=killed, moment=moment))
    with project.serving(0):
        in_time = ended(project.start(project.attached, "-n2"))
    conftest.write_text(plain)
    return Disturbed(min(killed, moment), in_time)


LOST = """
import os, signal

collected = []

def pytest_xdist_node_collection_finished(node):
    collected.append(node)
    if len(collected) == {moment}:
        for worker in collected[:{killed}]:
            os.kill(worker.gateway._rinfo().pid, signal.SIGKILL)
            worker.channel._receiveclosed.wait(30)
"""
"""Code for a controller: kill workers at a moment of the collection."""


def damaged_records(project: Project, chance: random.Random) -> Disturbed:
    """A run ends, and bytes of its records are overwritten."""
    run = _undisturbed(project)
    for path in project.folder.glob(".refusal-checks/runs/*/records/*"):
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for _ in range(chance.randrange(1, 20)):
                file.seek(chance.randrange(max(1, size)))
                file.write(chance.randbytes(chance.randrange(1, 200)))
    return run


def deleted_store(project: Project, chance: random.Random) -> Disturbed:
    """Somebody deletes the store in the middle of a run."""

    def delete() -> None:
        for path in project.store.parent.glob("store.sqlite*"):
            path.unlink(missing_ok=True)

    run = _deleting(project, chance, delete)
    project.forget()
    return run


def deleted_runs(project: Project, chance: random.Random) -> Disturbed:
    """Somebody deletes the folder of runs in the middle of a run."""
    runs = project.store.parent / "runs"
    return _deleting(project, chance, lambda: shutil.rmtree(runs, ignore_errors=True))


def _deleting(
    project: Project, chance: random.Random, delete: Callable[[], None]
) -> Disturbed:
    moment = chance.randrange(1, ANSWERS + PROMPTS)
    with project.serving(DELAY):
        run = project.start(project.attached)
        pause_until(lambda: len(project.given) >= moment, run)
        delete()
        return Disturbed(0, ended(run))


def _undisturbed(
    project: Project, prepare: Callable[[], None] | None = None
) -> Disturbed:
    with project.serving(0):
        return Disturbed(0, ended(project.start(project.attached, prepare=prepare)))


def _mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMountError(done.stderr.strip())


def _remount(folder: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], check=True)


def _keep(folder: Path) -> None:
    """Copy a mounted disk's content into the folder below it."""
    aside = folder.with_name("aside")
    subprocess.run(["cp", "-a", str(folder), str(aside)], check=True)
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()
    aside.rename(folder)


@contextmanager
def unmounted(folder: Path) -> Iterator[None]:
    """Unmount every disk at the end."""
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


KILLS: dict[str, tuple[Disturb, bool]] = {
    "pytest": (killing(itself, SIGNALS, engine=False), False),
    "pytest with an engine": (killing(itself, SIGNALS, engine=True), True),
    "its process group": (killing(itself, SIGNALS, engine=True, group=True), True),
    "xdist's controller": (killing(itself, SIGNALS, "-n2", engine=False), False),
    "the group of an xdist run": (
        killing(itself, SIGNALS, "-n2", engine=False, group=True),
        False,
    ),
    "an xdist worker": (killing(workers, WORKERS, "-n2", engine=False), False),
    "the guard of an engine": (killing(guards, SIGNALS, engine=True), True),
    "the server": (killing(servers, WORKERS, engine=True), True),
    "the engine core": (killing(cores, WORKERS, engine=True), True),
    "an attached server, at its n-th answer": (dying_candidate, False),
    "one of two runs on one store": (two_runs, False),
    "xdist workers as tests are handed out": (handing_out, False),
}
"""Faults that are a signal, and whether their run starts an engine."""

OTHERS: dict[str, tuple[Disturb, bool]] = {
    "a full disk": (full_disk, False),
    "a limit on the size of files": (limited_files, False),
    "a store that becomes read-only": (read_only, False),
    "a store that another process holds": (slow_store, False),
    "a clock that jumps": (jumping_clock, False),
    "rows of the store are changed": (changed_rows, False),
    "bytes of the store are overwritten": (damaged_file, False),
    "the store is deleted": (deleted_store, False),
    "bytes of the records are overwritten": (damaged_records, False),
    "the folder of runs is deleted": (deleted_runs, False),
}
