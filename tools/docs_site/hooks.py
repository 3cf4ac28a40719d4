"""Hooks of ``mkdocs build``: check tables, write ``llms.txt``, allow nothing from other servers.

``llms.txt`` (https://llmstxt.org) lists all pages for language models; each page is also written
as Markdown beside its HTML. Problems are warnings, which ``--strict`` turns into errors.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = str(Path(__file__).absolute().parents[2])

log = logging.getLogger("mkdocs.hooks.docs_site")

_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)[^>]*"""
    r"""\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)

_pages: list[Page] = []
_generated: set[str] = set()


def on_pre_build(config: MkDocsConfig) -> None:
    """Forget an earlier build, and make this repository's modules importable."""
    # MkDocs undoes changes to the path that a hook makes while it is imported.
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    _pages.clear()
    _generated.clear()


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Renew the generated tables, and warn if they were out of date."""
    from tools.docs_site import generated

    _generated.update(generated.names(markdown))
    unknown = generated.names(markdown) - set(generated.makers())
    for name in sorted(unknown):
        log.warning("%s: nothing is generated as %s", page.file.src_uri, name)
    if unknown:
        return markdown
    filled = generated.fill(markdown)
    if filled != markdown:
        log.warning(
            "%s: its tables are out of date: run python -m tools.docs_site",
            page.file.src_uri,
        )
    return filled


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Remember the pages in the order of the navigation."""
    _pages.extend(nav.pages)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Warn about everything that a browser would fetch from other servers."""
    for address in fetched(output):
        log.warning("%s fetches %s", page.file.src_uri, address)


def on_post_build(config: MkDocsConfig) -> None:
    """Write ``llms.txt`` and the Markdown of all pages."""
    from tools.docs_site import generated

    site = Path(config.site_dir)
    for name in sorted(set(generated.makers()) - _generated):
        log.warning("no page shows what is generated as %s", name)
    for page in _pages:
        path = site / page.file.src_uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.markdown or "", encoding="utf-8")
    text = llms_txt(
        config.site_name, config.site_description or "", _listed(config.site_url or "")
    )
    (site / "llms.txt").write_text(text, encoding="utf-8")


def llms_txt(
    name: str, description: str, pages: Iterable[tuple[str, str, str, str]]
) -> str:
    """Write the file from section, title, address and first sentence of every page."""
    lines = [f"# {name}", "", f"> {description}"]
    last = ""
    for section, title, address, about in pages:
        if section != last:
            lines += ["", f"## {section}", ""]
            last = section
        line = f"- [{title}]({address})"
        if about:
            line += f": {about}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def first_sentence(markdown: str) -> str:
    """Return the first sentence of the first paragraph, without links."""
    for block in re.split(r"\n\s*\n", markdown):
        text = " ".join(block.split())
        if text and not re.match(r"[#!<|-]|```|\d\.", text):
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
            return re.split(r"(?<=[.?]) ", plain)[0]
    return ""


def fetched(html: str) -> list[str]:
    """List the addresses on other servers that a browser would fetch to show the page."""
    return [script or link for script, link in _FETCHED.findall(html)]


def _listed(site: str) -> Iterator[tuple[str, str, str, str]]:
    for page in _pages:
        section = str([*page.ancestors][-1].title) if page.ancestors else "Start"
        yield (
            section,
            str(page.title),
            site + page.file.src_uri,
            first_sentence(page.markdown or ""),
        )
