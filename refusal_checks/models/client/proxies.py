"""Find a server's proxy in the environment."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from refusal_checks.core.errors import ModelError


def find_proxy(url: str) -> str | None:
    """The proxy for a server, with the credentials in the proxy's URL, if any.

    This replaces aiohttp's ``trust_env``, which looks for a .netrc file at each request, refuses an
    API key if there is such a file, and sends requests for local servers through proxies.
    """
    parts = urlsplit(url)
    named = getproxies().get(parts.scheme)
    host = parts.hostname or ""
    # A proxy on another machine cannot reach a server on this one.
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    if not named or is_here or proxy_bypass(parts.netloc):
        return None
    # curl takes HOST:PORT, so many environments have it.
    if "://" not in named:
        named = f"http://{named}"
    if not _is_proxy(named):
        raise ModelError(
            f"{parts.scheme.upper()}_PROXY: write http://HOST:PORT, or http://USER:PASSWORD@HOST:"
            "PORT, with special characters percent-encoded (%40 for @): its value is not the URL "
            "of a proxy. It is not shown, since it may hold a password"
        )
    return named


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https")
        return is_http and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
