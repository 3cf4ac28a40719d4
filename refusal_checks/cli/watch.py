"""``refusal-checks watch``: a local page about runs that go on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import EACH_RUN, Redact, Root
from refusal_checks.core.errors import UserError
from refusal_checks.results import run_folder
from refusal_checks.run.options.command_line import is_redacted


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(watch)


def watch(
    run: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help=f"{EACH_RUN}; without: last.")
    ] = None,
    runs: Root = run_folder.ROOT,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    redact: Redact = False,
) -> None:
    """Serve a page with a run's progress, its answers and verdicts as they come, and its gates.

    Reads what the run writes, so it may be started from another terminal, and at any time. Serves
    127.0.0.1 only, to whoever has the token in the printed address. Stops when the run ends; if it
    has already ended, press Ctrl-C. A redacted run is shown without texts.
    """
    from refusal_checks.reports.watch.server import Server
    from refusal_checks.reports.watch.view import View, statuses

    folders = [folder for name in run or [run_folder.LAST] for folder in _folders(name, runs)]
    view = View(folders, is_redacted(redact))
    try:
        server = Server(view, port)
    except OSError as fault:
        raise UserError(f"--port {port}: name another, or none: {fault.strerror}") from None
    try:
        goes_on = server.look()
        echo(f"watch {server.address}")
        if not goes_on:
            echo(
                "press Ctrl-C to stop: no run is going on there, and the page shows what is left "
                "of it"
            )
        server.watch() if goes_on else server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    for line in statuses(view):
        echo(line)


def _folders(name: str, root: Path) -> list[Path]:
    """The folder of a run, and those of the other candidates of the same session if it is named.

    An old session's candidates are told apart by the ends of the names of their folders.
    """
    found = run_folder.find(name, root).path
    session = re.fullmatch(r"(\d{8}-\d{6}-\d+)-\d+", found.name)
    if name != run_folder.LAST or session is None:
        return [found]
    return sorted(
        found.parent.glob(f"{session[1]}-*"), key=lambda path: (len(path.name), path.name)
    )
