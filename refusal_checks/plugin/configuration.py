"""Turn a pytest session's options and configuration into its run: the spec and the folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.config import toml_file
from refusal_checks.config.layers import option_layer, parse_override
from refusal_checks.config.run_spec import RunSpec, usual_file
from refusal_checks.config.tables import NAMED
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.text import sanitize, sanitize_lines
from refusal_checks.io import extensions
from refusal_checks.io.files import resolve_path
from refusal_checks.plugin import options
from refusal_checks.results.project import RUNS_VARIABLE

if TYPE_CHECKING:
    from refusal_checks.run.inputs import Folders


def read_spec(config: pytest.Config) -> RunSpec:
    """Read the run files, then the options; a later value of a key wins.

    Raises:
        pytest.UsageError: a file or an option is wrong.
    """
    with usage_errors():
        given = options.option_values(config)
        layers = [parse_override(text) for text in given.get("set", ())]
        for name, value in given.items():
            if name in NAMED:
                layers.append(option_layer(name, value, options.prefix(config)))
        folder = config.invocation_params.dir
        files = [toml_file.find(folder / name) for name in named_files(config)]
        files = files or [usual_file(config.rootpath, layers)]
        return RunSpec.read(*files, overrides=layers)


def named_files(config: pytest.Config) -> Sequence[str]:
    """The run files named by an option, else by the configuration; else none."""
    named: Sequence[str] = options.option_values(config).get("thresholds", ())
    return named or config.getini(f"{options.PREFIX}thresholds")


def run_folders(config: pytest.Config, spec: RunSpec) -> Folders:
    """The folders of the store and of runs."""
    # HTTP, which collection need not import
    from refusal_checks.run.inputs import choose_folders

    own = _configured_path(config, "folder") or config.rootpath / ".refusal-checks"
    runs = _configured_path(config, "runs")
    variable = os.environ.get(RUNS_VARIABLE, "").strip()
    if runs is None and variable:
        runs = resolve_path(config.invocation_params.dir / Path(variable).expanduser())
    return choose_folders(spec, own, runs or own / "runs")


def _configured_path(config: pytest.Config, key: str) -> Path | None:
    paths: list[Path] = config.getini(options.PREFIX + key)
    return Path(paths[0]) if paths else None


@contextmanager
def usage_errors(missing_file: str = "") -> Iterator[None]:
    """Turn a user's mistake into pytest's usage error, which ends the session with 4.

    Args:
        missing_file: says that no run file was named. It comes before an error about data: somebody
            who forgot their run file does not need data for the shipped gates.
    """
    try:
        yield
    except (UserError, StoreError) as fault:
        text = str(fault)
        if missing_file and isinstance(fault, DataError):
            text = f"{missing_file}. Or, for these gates, {text}"
        raise pytest.UsageError(sanitize_lines(text)) from None
    except Exception as fault:
        place = extensions.extension_line(fault)
        if not place:
            raise
        raise pytest.UsageError(
            f"fix {place}: this extension raised {type(fault).__name__}: "
            f"{sanitize(str(fault), 500)}"
        ) from None
