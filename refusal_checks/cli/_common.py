"""What commands share: groups, arguments that name a run, and printing."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.api.result import RunResult
from refusal_checks.config.layers import Layer, option_layer, parse_override
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.text import visible
from refusal_checks.results import project, run_folder
from refusal_checks.results.redact import VARIABLE, RedactedFolder, is_redacted
from refusal_checks.results.run_folder import RunFolder


def add_group(
    app: typer.Typer,
    name: str,
    about: str,
    commands: Mapping[str, Callable[..., None]],
) -> None:
    """Add a group of commands that start with the same word."""
    group = typer.Typer(no_args_is_help=True, help=about)
    # Without a callback, typer turns a single command into the whole group.
    group.callback()(lambda: None)
    for inner, command in commands.items():
        group.command(inner)(command)
    app.add_typer(group, name=name)


def echo(text: object, *, err: bool = False) -> None:
    """Print lines without characters that a terminal or a CI log would act on."""
    for line in str(text).split("\n"):
        typer.echo(visible(line), err=err)


@contextmanager
def explain_write_error(path: Path) -> Iterator[None]:
    """Turn an OSError while a file is written into a DataError that names the file."""
    try:
        yield
    except OSError as fault:
        raise DataError(
            f"{path}: make {path.parent} a folder that you can write to, with room on its disk: "
            f"{fault.strerror or fault}"
        ) from None


NAMED = '"last", an id or the start of one, a folder, or a summary.json'

Run = Annotated[str, typer.Argument(metavar="RUN", help=f"A run: {NAMED}.")]
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN...", help=f"Runs, each by {NAMED}.")
]


Root = Annotated[
    Path,
    typer.Option(
        "--runs",
        metavar="DIR",
        default_factory=project.default_runs_folder,
        show_default=False,
        help="The folder that holds the runs ($REFUSAL_CHECKS_RUNS, else .refusal-checks/runs).",
    ),
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact", help=f"Show hashes and lengths, not texts (${VARIABLE}=1)."
    ),
]
Candidate = Annotated[
    str | None,
    typer.Option(
        "--candidate",
        metavar="MODEL",
        help="The model under test, as in a gate run; default: the run file's.",
    ),
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="MODEL",
        help="A judge, as in a gate run (repeatable); default: the run file's.",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="Set any key of the run file, as in a gate run (repeatable).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def overrides(keys: Sequence[str] | None, **options: object) -> list[Layer]:
    """Layers of keys from the command line, which override run files.

    Args:
        keys: the values of ``--set``.
        options: values of options shared with gate runs, by name; None if not given.
    """
    layers = [parse_override(text) for text in keys or ()]
    for name, value in options.items():
        if value is not None:
            layers.append(option_layer(name, value))
    return layers


def open_run(name: str, root: Path, redact: bool = False) -> RunFolder:
    """Open a run, without texts if ``--redact`` or its variable is set.

    Raises:
        DataError: there is no such run, or its files have changed since it ended.
    """
    kind = RedactedFolder if is_redacted(redact) else RunFolder
    folder = kind.of(run_folder.locate_run(name, root))
    folder.require_whole()
    return folder


def read_run(name: str, root: Path) -> RunResult:
    """Open a run and read its summary; see ``open_run``."""
    folder = open_run(name, root)
    return RunResult(folder, folder.summary())


def require_target(target: Path, command: str, right: Iterable[str | Path]) -> None:
    """Refuse a run in place of the file or folder to write; ``right`` shows the right order."""
    is_name_of_run = target.name in (run_folder.LAST, run_folder.SUMMARY)
    if is_name_of_run or (target / run_folder.SUMMARY).is_file():
        line = shlex.join(map(str, right))
        raise UserError(
            f"write `refusal-checks {command} {line}`: {target} is a run, and the command "
            "expects its output there"
        )
