"""A real headless Chromium, for tests of the HTML report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

VARIABLE = "CHROMIUM"
"""The environment variable that names the program."""

ROWS = "#list > details"
"""The records of the page that is shown."""

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

    with TemporaryDirectory() as home, sync_playwright() as driver:
        # Containers have no user namespaces and a small /dev/shm; the page is the tests' own.
        running = driver.chromium.launch(
            executable_path=program(),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            # It keeps reports of crashes there, whatever folder its profile is in.
            env={
                **os.environ,
                "HOME": home,
                "XDG_CONFIG_HOME": home,
                "XDG_CACHE_HOME": home,
            },
            timeout=120_000,  # milliseconds; a machine may be busy
        )
        try:
            yield running
        finally:
            running.close()


class Watched:
    """A page with everything on it that must not happen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.faults.append(message.text))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("dialog", lambda dialog: self._dialog(dialog))
        page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog {dialog.message}")
        dialog.dismiss()


def count(page: Page) -> str:
    """What the page says of how many records it shows."""
    return page.locator("#count").inner_text()


def search(page: Page, text: str) -> None:
    """Search, and wait for the list to follow, as the address does."""
    page.fill("#query", text)
    asked = "new URLSearchParams(location.hash.slice(1)).get('query')"
    page.wait_for_function(f"text => {asked} === text", arg=text)


def unfold(page: Page, number: int = 0) -> Locator:
    """A record's body, unfolded; a browser builds it some time after the click."""
    row = page.locator(ROWS).nth(number)
    row.locator("summary").click()
    body = row.locator(".body")
    body.wait_for()
    return body


def wait_for_rows(page: Page, number: int) -> None:
    """Wait until the list has so many prompts."""
    page.wait_for_function(
        f"n => document.querySelectorAll('{ROWS}').length === n", arg=number
    )


def serious_faults(page: Page) -> dict[str, list[str]]:
    """What axe-core finds on a page that keeps somebody from using it: elements by rule."""
    from axe_playwright_python.sync_playwright import Axe

    return {
        fault["id"]: [node["html"][:200] for node in fault["nodes"][:3]]
        for fault in Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    }
