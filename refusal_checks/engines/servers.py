"""What a run needs from its model servers; the default starts and asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.sampling import SamplingBase
from refusal_checks.core.settings import RequestPace
from refusal_checks.engines.placement import Placement
from refusal_checks.models.model_files import context_length
from refusal_checks.models.model_names import Attached, Model, Served

if TYPE_CHECKING:
    # HTTP, which collection need not import.
    from refusal_checks.models.client.client import Client

Say = Callable[[str], None]
"""Shows one line to the user."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Work that asks the servers, and can be repeated."""


NOT_STORED = "not stored, and no server is asked"


class _NoServer:
    """Refuses every request of a client."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        raise EndpointError(NOT_STORED)


class Servers:
    """The servers of candidate and judges; without engines, a run decides by what is stored.

    Attributes:
        are_live: True if attached servers can be asked before the run.
        clients: all connections; open them in the event loop that uses them.
        placement: the result of the last ``place``.
    """

    are_live: ClassVar[bool] = False

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.placement = Placement("none", "no engine to start here")

    def connect(
        self,
        model: Served | Attached,
        option: str,
        sampling: SamplingBase,
        pace: RequestPace,
        number: int = 1,
    ) -> Client:
        """Return a client for a model; ``number`` counts the models of ``option`` from 1."""
        from refusal_checks.models.client.client import Client

        context = None
        if isinstance(model, Served):
            name, context = model.served_name, context_length(model)
        elif model.model:
            name = model.model
        else:
            raise ModelError(
                f"{option} {model.url}: add #MODEL to the URL: with store.only, no server can be "
                "asked for its model"
            )
        client = Client(model.name, name, options=model, transport=_NoServer())
        client.context = context
        self.clients.append(client)
        return client

    def usage_report(self) -> dict[str, Any]:
        """Token counts so far, and what servers refuse and call themselves."""
        return {}

    def place(self, models: Iterable[Model]) -> Placement:
        """Choose where the engines of these models run; starts nothing."""
        return self.placement

    def start(self, say: Say, turn: int = 0) -> None:
        """Stop all engines and start those of this turn; return when all are ready.

        If one fails to start, the others may run until ``stop``.
        """

    async def wait_until_ready(self, models: Iterable[Model] | None = None) -> None:
        """Return once the engines of these models, or all that are starting, are ready.

        An engine cannot be asked while another one loads into the same device memory.
        """

    def require_running(self) -> None:
        """Raise EngineDiedError if a started engine has ended."""

    async def run_with_restart(self, work: Work, say: Say) -> None:
        """Do the work; if an engine ends, restart it once and repeat the work.

        The work itself must remember what is done already.
        """
        await work()

    def stop(self) -> None:
        """Stop every running engine."""

    def close(self) -> None:
        """Stop every running engine, and prevent further starts, even from other threads."""
