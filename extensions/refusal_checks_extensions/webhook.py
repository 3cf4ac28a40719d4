"""A message to a chat, in the format of Slack's incoming webhooks, which others understand, too.

The URL is a secret: the run file names the environment variable that holds it, and it is neither
printed nor stored nor followed elsewhere. The message has verdicts and figures, and no text of a
model.

Format: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from refusal_checks import (
    DataError,
    RunFolder,
    RunSummary,
    UserError,
    release_decision,
    sanitize,
    sentence,
)

TIMEOUT = 10.0
"""Seconds that connecting, and each further step, may take."""

LISTED = 10
"""Most gates that are named."""

LONGEST = 20_000
"""Most characters; Slack cuts off after 40,000."""


def check(variable: Path) -> None:
    """Raise UserError unless the variable holds a URL; neither is shown, as it may be the URL."""
    if not os.environ.get(str(variable), "").startswith(("https://", "http://")):
        raise UserError(
            "reports.webhook: name an environment variable that holds a URL, which begins with "
            "https://"
        )


def write(run: RunFolder, variable: Path) -> None:
    """Post the answer and the failed gates to the URL that this variable holds.

    Raises:
        DataError: it was not taken; without the URL.
    """
    check(variable)
    why = _post(os.environ[str(variable)], json.dumps(message(run.summary())).encode())
    if why:
        raise DataError(
            f"check the URL in ${variable}: nothing was posted, {why}; the exit code stays as it is"
        )


def _post(url: str, body: bytes) -> str:
    """Why the message was not taken, without the URL; empty if it was."""
    from http.client import HTTPException  # only where a message is posted
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """Follows no redirect, because its target would get the message."""

        def redirect_request(self, *_: object) -> None: ...

    kind = {"Content-Type": "application/json"}
    try:
        request = Request(url, body, kind, method="POST")  # noqa: S310  # the scheme is checked
        build_opener(Stay).open(request, timeout=TIMEOUT).close()
    except HTTPError as fault:
        fault.close()
        return f"its server answered HTTP {fault.code}"
    except OSError as fault:
        found = getattr(fault, "reason", fault)
        why = getattr(found, "strerror", None) or type(found).__name__
        return f"its server cannot be reached ({sanitize(str(why))})"
    except (HTTPException, ValueError):  # their messages quote the URL
        return "it is not a URL that can be asked"
    return ""


def message(run: RunSummary) -> dict[str, object]:
    """The message; Slack shows it as plain text, and others read the same key."""
    text = "\n".join(_lines(run))
    return {"text": text[:LONGEST], "mrkdwn": False, "unfurl_links": False}


def _lines(run: RunSummary) -> Iterator[str]:
    ships = release_decision(run)
    yield f"Refusal checks of {_shown(run.manifest.shown)}: {_shown(ships.headline)}"
    yield _shown("; ".join(ships.reasons), 1000)
    failed = [each for each in run.verdicts.values() if each.fails]
    for verdict in failed[:LISTED]:
        yield _shown(f"• {verdict.gate.id}: {sentence(verdict)}", 500)
    if len(failed) > LISTED:
        yield f"and {len(failed) - LISTED} more"


def _shown(text: str, limit: int = 100) -> str:
    """Text in which nothing is a mention or a link of Slack's."""
    return (
        sanitize(text, limit)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
