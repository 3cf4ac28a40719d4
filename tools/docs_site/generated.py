"""What the documentation takes from the code: a page says where, ``fill`` puts it there.

What NAME stands for follows the line ``<!-- generated: NAME -->``, up to the line ``END``.
``python -m tools.docs_site`` writes it into the pages, so that GitHub shows it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from refusal_checks import __version__
from tools.docs_site import benchmarks, commands, options

END = "<!-- end of generated -->"

MARK = re.compile(
    rf"^<!-- generated: (\S+) -->$(?:(?:(?!\n<!-- generated: )[\s\S])*?\n{END}$)?",
    re.MULTILINE,
)


@cache
def makers() -> Mapping[str, Callable[[], str]]:
    """Every piece that can be generated, by its name."""
    return dict(_makers())


_PINS = re.compile(
    r"((?:refusal-checks(?:/\.github/workflows/\w+\.yml)?@|checks-ref: )v|REGISTRY/refusal-checks:)"
    r"\d+\.\d+\.\d+"
)
"""The version in what installs or calls this project."""


def fill(page: str) -> str:
    """The page with everything that it asks for, in place of what it has; a KeyError for others."""
    page = _PINS.sub(rf"\g<1>{__version__}", page)

    def made(mark: re.Match[str]) -> str:
        return f"<!-- generated: {mark[1]} -->\n\n{makers()[mark[1]]()}\n\n{END}"

    return MARK.sub(made, page)


def names(page: str) -> set[str]:
    """What the page asks for."""
    return set(MARK.findall(page))


def _makers() -> Iterator[tuple[str, Callable[[], str]]]:
    for name in options.SECTIONS:
        yield f"table/{name}", partial(options.as_table, name)
    yield "options", options.without_key
    yield "configuration", options.ini_keys
    yield "commands", commands.reference
    yield "benchmarks", benchmarks.as_table
    yield "attacks", benchmarks.attacks_table
    yield "metrics", benchmarks.metrics_table
