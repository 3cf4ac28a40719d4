"""What a run asks of its models' servers, whether they run or are fed with batch files."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from refusal_checks.engines.placement.values import Assignment, Placement
from refusal_checks.models.client.client import Client
from refusal_checks.models.identity import Model
from refusal_checks.models.spec import Attached, Served

Say = Callable[[str], None]
"""Shows one line to the user."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Asks the servers; can be done again."""


class Servers(Protocol):
    """Candidate's and judges' servers."""

    @property
    def clients(self) -> Sequence[Client]:
        """The connections that were made, to be opened where they are used."""

    @property
    def are_live(self) -> bool:
        """Whether a server that others run can be asked something before the run."""

    @property
    def placement(self) -> Placement:
        """Of the engines that the last ``place`` was asked for."""

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """A client for a model.

        Args:
            option: the option that named the model, ``--candidate`` or ``--judge``.
            number: which of the models that this option named, from 1.

        Raises:
            ModelError: its server cannot be used.
        """

    def account(self) -> dict[str, Any]:
        """What the requests cost so far, and what servers that others run can do."""

    def place(self, models: Iterable[Model]) -> Placement:
        """Choose where the engines of these models run; nothing is started yet.

        Raises:
            UserError: they cannot be placed as the options say.
        """

    def start(self, say: Say, turn: int = 0) -> None:
        """Start the placed engines whose turn it is.

        Raises:
            EngineStartError: one did not come up; all are stopped then.
        """

    def require_running(self) -> None:
        """Raise EngineDiedError where an engine that was started has ended."""

    async def guard(self, work: Work, say: Say) -> None:
        """Do the work; where an engine ends, start it again, once, and do the work again.

        Raises:
            EngineDiedError: an engine has ended for the second time.
            EngineStartError: one that has ended did not come up again.
        """

    def stop(self) -> None:
        """Stop every engine that runs."""

    def close(self) -> None:
        """Stop every engine that runs; none starts any more."""


NO_PLACE = Assignment()
"""An engine that has the machine for itself."""


@dataclass(frozen=True)
class EngineSpec:
    """What makes two engines the same: the model and vLLM's arguments."""

    model: str
    args: tuple[str, ...] = ()
