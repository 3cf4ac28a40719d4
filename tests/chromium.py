"""A real headless Chromium, for tests of the HTML report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "REFUSAL_CHECKS_CHROMIUM"
"""The environment variable that names the program."""

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The browser's program; None where there is none."""
    found = (shutil.which(name) for name in NAMES)
    return os.environ.get(VARIABLE) or next(filter(None, found), None)


def why_not() -> str:
    """Why no browser can be used; empty where one can."""
    if find_spec("playwright") is None:
        return "the package playwright is not installed"
    if program() is None:
        return f"no Chromium: install it, or name its program in {VARIABLE}"
    return ""


@contextmanager
def browser() -> Iterator[Browser]:
    """A running browser; it downloads nothing."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers have no user namespaces and a small /dev/shm; the page is the tests' own.
        running = driver.chromium.launch(
            executable_path=program(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield running
        finally:
            running.close()
