"""``refusal-checks gate``: release gates without a folder's own pytest setup."""

from pathlib import Path

import typer


def add(app: typer.Typer) -> None:
    passes_on = {
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
    app.command(context_settings=passes_on, options_metavar="MODEL [OPTIONS]")(gate)


def gate(context: typer.Context) -> None:
    """Gate a model: MODEL --judge JUDGE [-k EXPR] and any other option of the gates or of pytest.

    MODEL is ORG/MODEL, a folder, a server's URL (http://HOST:PORT/v1#MODEL), replay:FILE or
    PREFIX:NAME of an extension. Gates come from --thresholds, else from this folder's
    thresholds/default.toml, else from the shipped file. Answers and runs are kept in this folder's
    .refusal-checks. The folder's pytest configuration, conftest.py and $PYTEST_ADDOPTS are
    ignored, except for the key refusal_checks_runs.

    -h lists all options. Exits with 0 if every gate passed, 1 if one failed or could not be
    evaluated, 4 if the input is wrong, 7 if all passed but something was not proven, 16 if an
    engine did not start.
    """
    from refusal_checks.plugin import gate_command as plugin  # not for other commands

    raise typer.Exit(plugin.run(Path.cwd(), context.args))
