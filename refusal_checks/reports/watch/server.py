"""Serves the page to this machine's user alone.

The address is 127.0.0.1, whose ports any local user and any web page can ask: so a random token is
asked for once, in the address that the terminal shows, and becomes a cookie; a request whose Host
is another name, as after DNS rebinding, is refused; and no other origin may read an answer. The
page fetches nothing but its own state, and runs its own script only.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
import time
from functools import cache
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import RLock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from refusal_checks.reports.inline import digest, palette, source
from refusal_checks.reports.watch.view import View

TEMPLATES = Path(__file__).parent / "templates"
ADDRESS = "127.0.0.1"
LEAVE = 5.0
"""Seconds that an open page has to fetch the end of the run."""

TICK = 0.5
"""Seconds between two looks at the run."""


@cache
def page() -> tuple[bytes, str]:
    """The page, which is the same for every run, and its Content-Security-Policy."""
    style = palette() + source(TEMPLATES / "watch.css")
    script = source(TEMPLATES / "watch.js")
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    text = environment.get_template("watch.html.j2").render(style=style, script=script)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        f"connect-src 'self'; style-src {digest(style)}; script-src {digest(script)}"
    )
    return text.encode(), policy


class Server(ThreadingHTTPServer):
    """The page of some runs; answers from construction to ``close``.

    Args:
        port: 0 for any that is free.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, view: View, port: int = 0) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self._view = view
        self._lock = RLock()
        self._token = secrets.token_urlsafe(24)
        self.asked = 0.0
        self.told_end = False
        self._thread = Thread(target=self.serve_forever, args=(TICK / 5,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self._token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of this server that a browser may use."""
        return tuple(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    @property
    def cookie(self) -> str:
        """Name of the cookie; cookies do not tell ports apart."""
        return f"refusal_checks_{self.server_port}"

    def knows(self, token: str) -> bool:
        """True for the token; takes as long for any other."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def look(self) -> bool:
        """Read what the runs have written; False once they all have ended."""
        with self._lock:
            self._view.refresh()
            return self._view.goes_on

    def state(self, after: int) -> bytes:
        """The runs' state as JSON."""
        with self._lock:
            self._view.refresh()
            values = self._view.values(after)
        self.asked, self.told_end = time.monotonic(), not values["goes_on"]
        return json.dumps(values, allow_nan=False).encode()

    def watch(self) -> None:
        """Return when all runs have ended and a page that is open has been told."""
        while self.look():
            time.sleep(TICK)
        ended = time.monotonic()
        while not self.told_end and self.asked > ended - LEAVE > time.monotonic() - 2 * LEAVE:
            time.sleep(TICK / 5)

    def wait(self) -> None:
        """Answer until somebody interrupts."""
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a browser has gone before it had its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Stop to answer."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "refusal-checks", ""
    timeout = 10

    def do_GET(self) -> None:
        """Answer a browser."""
        try:
            asked = urlsplit(self.path)
            query = parse_qs(asked.query)
        except ValueError:
            self._say(HTTPStatus.BAD_REQUEST, "This is not an address.")
            return
        if (self.headers.get_all("Host") or []) not in [[host] for host in self.server.hosts]:
            self._say(
                HTTPStatus.FORBIDDEN,
                "Open the address that the terminal shows: this is another one.",
            )
        elif asked.path == "/" and self.server.knows("".join(query.get("token", [""]))):
            self._set_cookie("".join(query["token"]))
        elif not self._has_cookie():
            self._say(
                HTTPStatus.FORBIDDEN, "Open the address that the terminal shows: it has a token."
            )
        elif asked.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page()[0])
        elif asked.path == "/state":
            after = "".join(query.get("after", [""]))
            number = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else 0
            self._send(HTTPStatus.OK, "application/json", self.server.state(number))
        else:
            self._say(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _has_cookie(self) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return False
        return found is not None and self.server.knows(found.value)

    def _set_cookie(self, token: str) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        cookie = f"{self.server.cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
        self.send_header("Set-Cookie", cookie)
        self.send_header("Location", "/")
        self._end_headers(b"")

    def _say(self, status: HTTPStatus, line: str) -> None:
        self._send(status, "text/plain; charset=utf-8", line.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self._end_headers(body)
        self.wfile.write(body)

    def _end_headers(self, body: bytes) -> None:
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Security-Policy": page()[1],
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: an address has the token."""
