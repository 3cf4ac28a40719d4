"""The threshold files that come with the package, found by name wherever it is installed."""

from __future__ import annotations

from pathlib import Path

from refusal_checks.core.errors import ThresholdError
from refusal_checks.core.mistakes import either, near

FOLDER = Path(__file__).parents[1] / "thresholds"
DEFAULT = FOLDER / "default.toml"


def names() -> list[str]:
    """Their names, without the ending."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(path: Path) -> Path:
    """The file; if there is none, the shipped one of that name: ``smoke``, ``smoke.toml`` ...

    Raises:
        ThresholdError: there is neither.
    """
    if path.exists():
        return path
    own = FOLDER / f"{path.name.removesuffix('.toml')}.toml"
    if own.is_file():
        return own
    hint = near(path.name, [*names(), *(one.name for one in path.parent.glob("*.toml"))], 0.7)
    raise ThresholdError(
        f"--thresholds {path}: cannot be read: no such file; {either(hint)}name one of yours, or "
        f"one that comes with refusal-checks: {', '.join(names())}"
    )
