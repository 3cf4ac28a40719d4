"""Find and read run files, and say what is wrong with their TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError, ThresholdError
from refusal_checks.core.suggestions import lead_with_hint, suggest
from refusal_checks.io.files import (
    FILE_NAME,
    explain_missing_file,
    is_file_name,
    read_bytes,
)

# The files that come with the package.
FOLDER = Path(__file__).parents[1] / "thresholds"

DEFAULT = FOLDER / "default.toml"

EXTENSIONS = "extensions"  # the key of a file, above its tables, that names Python files to import


def names() -> list[str]:
    """Names of the run files in the package, without the suffix."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(path: Path) -> Path:
    """Find a run file by its path or, if shipped, by its name (``smoke``, ``smoke.toml``)."""
    # A file of the user's wins over a shipped one of the same name.
    if path.exists():
        why = "" if path.is_dir() else explain_missing_file(path)
        if why:
            raise ThresholdError(f"run file {path}: {why}")
        return path
    own = FOLDER / f"{path.name.removesuffix('.toml')}.toml"
    if own.is_file():
        return own
    near_by = [file.name for file in path.parent.glob("*.toml")]
    hint = suggest(path.name, [*names(), *near_by], 0.7)
    raise ThresholdError(
        f"run file {path}: no such file; {lead_with_hint(hint)}name one of yours, or one that "
        f"comes with refusal-checks: {', '.join(names())}"
    )


def read(path: Path) -> dict[str, Any]:
    """Read a run file; an error names the line and what to write."""
    try:
        text = read_bytes(path).decode("utf-8-sig")  # editors on Windows write a mark
    except DataError as fault:
        raise ThresholdError(str(fault)) from None
    except UnicodeDecodeError as fault:
        raise ThresholdError(
            f"{path}: save it as UTF-8: byte {fault.start} is in another encoding"
        ) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        reason, _, at = str(fault).partition(" (at ")
        place = re.match(r"line (\d+), column", at)
        lines = text.replace("\r", "").rstrip().split("\n")
        number = len(lines)
        if place:
            number = min(int(place[1]), len(lines))
        line = lines[number - 1]
        raise ThresholdError(
            f"{path}: line {number}: write TOML (KEY = VALUE, strings in quotes, {{ }} on one "
            f"line): {reason}: {line.strip()[:100]}"
        ) from None
    except (ValueError, RecursionError):  # the parser's own limits
        raise ThresholdError(
            f"{path}: shorten it: a number has thousands of digits, or values are nested hundreds "
            "of levels deep"
        ) from None
    for name, table in content.items():
        if not is_file_name(name):  # a benchmark's becomes that of files
            raise ThresholdError(
                f"{path}: [{name!r}]: rename this benchmark: use {FILE_NAME}"
            )
        if name != EXTENSIONS and not isinstance(table, dict):
            raise ThresholdError(
                f"{path}: {name}: write it as a table, [{name}]; if it is a key, move it below "
                "its table's heading, such as [sampling]"
            )
    return content
