"""``python -m tools.simulations [PART ...]`` prints the tables of one part, or of all.

A part is a module of this package with a function ``main`` that prints. Everything is seeded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

import tools.simulations as package


def run(requested: Sequence[str]) -> None:
    """Print the tables of these parts, or of all."""
    parts = [
        part.name
        for part in iter_modules(package.__path__)
        if not part.name.startswith("_")
    ]
    unknown = set(requested).difference(parts)
    if unknown:
        sys.exit(
            f"no part {', '.join(sorted(unknown))}; name some of {', '.join(parts)}"
        )
    for name in requested or parts:
        import_module(f"{package.__name__}.{name}").main()


if __name__ == "__main__":
    run(sys.argv[1:])
