"""What the documentation takes from the code: a page says where, the build puts it there.

A line ``<!-- generated: NAME -->`` of a page is replaced by what NAME stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from tools.docs_site import benchmarks, commands, options, threshold_keys

MARK = re.compile(r"^<!-- generated: (\S+) -->$", flags=re.MULTILINE)


@cache
def makers() -> Mapping[str, Callable[[], str]]:
    """Every piece that can be generated, by its name."""
    return dict(_makers())


def fill(page: str) -> str:
    """The page with everything that it asks for.

    Raises:
        KeyError: it asks for something unknown.
    """
    return MARK.sub(lambda mark: makers()[mark[1]](), page)


def names(page: str) -> set[str]:
    """What the page asks for."""
    return set(MARK.findall(page))


def _makers() -> Iterator[tuple[str, Callable[[], str]]]:
    for name, section in options.sections().items():
        yield f"options/{name}", partial(options.as_table, section)
    for name, settings in threshold_keys.TABLES.items():
        yield f"thresholds/{name}", partial(threshold_keys.as_table, settings)
    yield "configuration", options.keys
    yield "commands", commands.reference
    yield "benchmarks", benchmarks.as_table
