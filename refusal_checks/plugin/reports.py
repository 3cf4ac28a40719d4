"""The report files that a session was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.reports import formats
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.run.options.call import Call

if TYPE_CHECKING:
    from refusal_checks.run.run import Run


def check(call: Call) -> None:
    """Refuse reports that could not be written, before anything is started.

    Raises:
        pytest.UsageError: says what is missing.
    """
    try:
        formats.check(call)
    except UserError as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None


def write(call: Call, runs: Sequence[Run]) -> Iterator[str]:
    """Write the reports that were asked for; one line about each, for the user."""
    folders = [RunFolder(run.folder) for run in runs]
    for name, report, path in formats.targets(call) if folders else ():
        try:
            report.write(folders, path)
        except (OSError, DataError) as fault:
            yield f"{name} report could not be written: {clean(str(fault))}"
            continue
        yield formats.written(name, report, path)
