"""What a terminal shows about runs."""

import shutil

WIDTH = 100
"""Most columns of everything that a terminal is shown."""

_LEAST = 40


def fitting(columns: int | None = None) -> int:
    """The columns to fill.

    Args:
        columns: of the terminal; None to ask it, which gives 80 where there is none, as in CI.
    """
    known = shutil.get_terminal_size().columns if columns is None else columns
    return max(_LEAST, min(WIDTH, known - 1))
