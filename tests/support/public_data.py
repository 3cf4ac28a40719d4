"""Files of the mirror of public data that tests read; not every mirror has all of them."""

from pathlib import Path

import pytest


def public_file(mirror: Path, name: str) -> Path:
    """A file of the mirror; the test is skipped where the mirror lacks it."""
    path = mirror / name
    if not path.exists():
        pytest.skip(f"the mirror has no {name}")
    return path
