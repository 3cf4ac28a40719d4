"""What a run asks of its models' servers, whether they run now or are fed with batch files."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from refusal_checks.client import Client
from refusal_checks.identity import Model
from refusal_checks.models import Attached, Served


class Servers(Protocol):
    """Candidate's and judges' servers."""

    @property
    def clients(self) -> Sequence[Client]:
        """The connections that were made, to be opened where they are used."""

    @property
    def are_live(self) -> bool:
        """Whether a server that others run can be asked something before the run."""

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """A client for a model.

        Args:
            option: the option that named the model, ``--candidate`` or ``--judge``.
            number: which of the models that this option named, from 1.

        Raises:
            ModelError: its server cannot be used.
        """

    def start(self, models: Iterable[Model], say: Callable[[str], None]) -> None:
        """Make the servers of the models ready that are needed.

        Raises:
            EngineStartError: one did not come up; all are stopped then.
        """

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; raises what it raises, or EngineDiedError when an engine has ended."""

    def stop(self) -> None:
        """Stop every engine that was started."""
