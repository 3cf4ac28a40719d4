"""The HTML report as a parser sees it."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

Attributes = dict[str, str | None]


ACTING = {"src", "srcset", "srcdoc", "style", "action", "data"}
"""Attributes that load or run something, or change how a page looks."""


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        elements: tag and attributes of each element, in order.
        scripts: attributes and content of each script.
        style: the content of all style elements.
        words: all other text, with single spaces.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, Attributes]] = []
        self.scripts: list[tuple[Attributes, str]] = []
        self.style = ""
        self._text: list[str] = []
        self._inside = ""
        self.feed(path.read_bytes().decode("utf-8"))
        self.close()
        self.words = " ".join(" ".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif self._inside == "style":
            self.style += data
        elif self.elements[-1:] == [("wbr", {})] and self._text:
            self._text[-1] += data  # a word goes on
        else:
            self._text.append(data)

    def named(self, tag: str, name: str = "") -> list[Attributes]:
        """Elements of a tag and, where it is said, of a class."""
        return [
            attributes
            for found, attributes in self.elements
            if found == tag
            and (not name or name in (attributes.get("class") or "").split())
        ]

    @property
    def code(self) -> list[str]:
        """The scripts that run."""
        return [text for attributes, text in self.scripts if "type" not in attributes]

    def data(self, name: str) -> list[Any]:
        """The embedded JSON of a class."""
        return [
            json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("class") == name
        ]

    def require_harmless(self) -> None:
        """Require that no element and no attribute can load or run anything."""
        for tag, attributes in self.elements:
            assert tag not in ("b", "img", "iframe", "object", "link")
            assert not ACTING & attributes.keys()
            assert not [name for name in attributes if name.startswith("on")]
