"""Remove what must not be published from a text: keys, folders, hosts, or everything."""

import hashlib
import os
import re
from pathlib import Path


def strip_credentials(text: str) -> str:
    """Remove passwords and queries, which may hold keys, from URLs in a text."""

    def public(url: re.Match[str]) -> str:
        _, at, rest = url[0].rpartition("@")
        place, asks, query = (f"[...]@{rest}" if at else url[0]).partition("?")
        _, hash_, part = query.partition("#")
        return f"{place}?[...]{hash_}{part.partition('?')[0]}" if asks else place

    return re.sub(r"(?<=://)[^\s'\"<>]+", public, text)


_PART = r"[^\s\\/,;:'\"]+[\\/]"


_FOLDERS = re.compile(
    rf"(?<![\w/.~…-])(?:(?:~[\w.-]*|[A-Za-z]:)[\\/](?:{_PART})*|[\\/](?![\\/])(?:{_PART})+)"
)
"""The folders in a file's path, but not those in a URL."""


def shorten_paths(text: str) -> str:
    """Shorten each local path to its last part, for example ``…/store.sqlite``."""
    return _FOLDERS.sub("…/", text)


def redact_paths(text: str) -> str:
    """Remove this machine's folders and the hosts of URLs from a text that will be published."""
    text = text.replace("file://", "")
    for folder in map(str, (Path.cwd(), Path.home())):  # these may have spaces
        if folder.count(os.sep) > 1:
            text = text.replace(f"{folder}{os.sep}", "…/")
    return re.sub(
        r"(?<=://)[^\s/?#'\"<>]+", "…", shorten_paths(strip_credentials(text))
    )


_REDACTED = re.compile(r"\[redacted: sha256 [0-9a-f]{12}, \d+ characters\]")


def redacted(original: str) -> str:
    """Replace a text with its hash and length, unless it is empty or already redacted."""
    if not original or is_redacted(original):
        return original
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"[redacted: sha256 {digest}, {len(original)} characters]"


def is_redacted(shown: str) -> bool:
    """True if this is the hash and length of a redacted text."""
    return _REDACTED.fullmatch(shown) is not None


def has_redacted(shown: str) -> bool:
    """True if a part of the text, such as one turn of a conversation, is redacted."""
    return _REDACTED.search(shown) is not None
