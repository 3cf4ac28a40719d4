"""What a run's requests cost, and what its servers could do, for its manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from refusal_checks.models.client.client import Client
from refusal_checks.models.client.usage import Usage


def tokens(clients: Mapping[str, Sequence[Client]]) -> dict[str, Any]:
    """The usage of each role's clients together."""
    return {role: asdict(_total(found)) for role, found in clients.items()}


def _total(clients: Iterable[Client]) -> Usage:
    return sum((client.meter.usage for client in clients), Usage())


def capabilities(clients: Mapping[str, Sequence[Client]]) -> dict[str, Any]:
    """What each role's servers can do, by URL and model."""
    return {
        role: {f"{own.url}#{own.model}": own.capabilities.as_words() for own in found}
        for role, found in clients.items()
    }
