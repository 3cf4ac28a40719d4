"""What a moderation endpoint (``/v1/moderations``) says of a text.

OpenAI's, Mistral's and LocalAI's answer with the harmful contents of which they find some, a list
of ``categories``; Mistral's leaves out ``flagged``. Whatever is missing or contradicts itself is a
malformed answer: it must not count as "nothing found".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refusal_checks.core.text import replace_surrogates
from refusal_checks.models.client.client import Client

MODERATIONS = "/moderations"

LONGEST_NAME = 100  # characters of a category's name

MOST_CATEGORIES = 200


@dataclass(frozen=True)
class ModerationResult:
    """Whether a text falls into each category of harm."""

    categories: Mapping[str, bool]

    @property
    def flagged(self) -> list[str]:
        """The categories that the text falls into, in the endpoint's order."""
        return [name for name, is_of_it in self.categories.items() if is_of_it]


class Moderator:
    """Asks a client's moderation endpoint.

    Every answer must have all categories that an earlier one had.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def moderate(self, text: str) -> ModerationResult:
        """Moderate a text; EndpointError if there is no answer that can be relied on."""
        return await self._client.post(MODERATIONS, {"input": text}, self._read)

    def _read(self, response: Any) -> ModerationResult:
        moderated = read_moderation(response)
        missing = self._client.categories - moderated.categories.keys()
        if missing:
            raise ValueError(f"categories are missing: {', '.join(sorted(missing))}")
        self._client.categories |= moderated.categories.keys()
        return moderated


def read_moderation(response: Any) -> ModerationResult:
    """Read the answer to a request with one text; raises one of ``MALFORMED`` if it is none."""
    if response.get("error"):
        raise ValueError("it tells of an error")
    (result,) = response["results"]
    # An endpoint that cannot tell whether a text is of a category says null.
    told = {
        _name(name): value
        for name, value in result["categories"].items()
        if value is not None
    }
    if not told or len(told) > MOST_CATEGORIES:
        raise ValueError(f"{len(told)} categories")
    if not all(isinstance(value, bool) for value in told.values()):
        raise TypeError("a category is neither true nor false")

    # Flagged without a category, or a category without a flag: neither can be relied on.
    flagged = result.get("flagged", any(told.values()))
    if flagged is not any(told.values()):
        raise ValueError(f"flagged is {flagged!r:.20}, unlike the categories")
    return ModerationResult(told)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise ValueError("no name of a category")
    return replace_surrogates(name)
