"""Fill marked places in a page with text generated from the code.

A place begins with a line ``<!-- generated: NAME -->`` and ends at the line ``END``. The text
becomes part of the page itself, so that GitHub shows it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from refusal_checks import __version__
from refusal_checks.core.reservation_kinds import RESERVATION_KINDS
from tools.docs_site import benchmarks, commands, judge_prompts, options

END = "<!-- end of generated -->"

MARK = re.compile(
    rf"^<!-- generated: (\S+) -->$(?:(?:(?!\n<!-- generated: )[\s\S])*?\n{END}$)?",
    re.MULTILINE,
)


@cache
def makers() -> Mapping[str, Callable[[], str]]:
    """Map the name of each piece to the function that generates it."""
    return dict(_makers())


_PINS = re.compile(
    r"((?:refusal-checks(?:/\.github/workflows/\w+\.yml)?@|checks-ref: )v|REGISTRY/refusal-checks:)"
    r"\d+\.\d+\.\d+"
)
"""Versions of this project in commands and workflows."""


def fill(page: str) -> str:
    """Renew everything generated on a page; KeyError names an unknown mark."""
    page = _PINS.sub(rf"\g<1>{__version__}", page)

    def made(mark: re.Match[str]) -> str:
        return f"<!-- generated: {mark[1]} -->\n\n{makers()[mark[1]]()}\n\n{END}"

    return MARK.sub(made, page)


def names(page: str) -> set[str]:
    """Collect the names in the page's marks."""
    return set(MARK.findall(page))


def _makers() -> Iterator[tuple[str, Callable[[], str]]]:
    for name in options.SECTIONS:
        yield f"table/{name}", partial(options.as_table, name)
    yield "options", options.without_key
    yield "configuration", options.ini_keys
    yield "commands", commands.reference
    yield "judge-prompts", judge_prompts.as_table
    yield "benchmarks", benchmarks.as_table
    yield "metrics", benchmarks.metrics_table
    yield "reasons", options.reasons
    for kind in RESERVATION_KINDS:
        yield f"reservations/{kind}", partial(options.reservations, kind)
