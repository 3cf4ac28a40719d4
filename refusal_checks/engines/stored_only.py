"""Models that are not asked: a run decides by what the store has."""

from collections.abc import Mapping
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.sampling import SamplingBase
from refusal_checks.core.settings import RequestPace
from refusal_checks.engines.servers import Servers
from refusal_checks.models.client.client import Client
from refusal_checks.models.model_files import declared
from refusal_checks.models.names import Attached, Served

NOT_STORED = "not stored, and no server is asked"


class _NoServer:
    """Takes a client's requests and answers none."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        raise EndpointError(NOT_STORED)


class StoredModels(Servers):
    """Stands in for a run's servers: starts none and asks none."""

    def connect(
        self,
        model: Served | Attached,
        option: str,
        sampling: SamplingBase,
        pace: RequestPace,
        number: int = 1,
    ) -> Client:
        """Return a client that stands in for a model's server, which is not asked."""
        context = None
        if isinstance(model, Served):
            name, url = model.served_name, model.path
            context = declared(model)
        else:
            if not model.model:
                raise ModelError(
                    f"{option} {model.url}: add #MODEL; store.only asks no server"
                )
            name, url = model.model, model.url
        client = Client(
            url,
            name,
            extras=model,
            transport=_NoServer(),
        )
        client.context = context
        self.clients.append(client)
        return client
