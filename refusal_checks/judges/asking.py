"""Asking a model for a verdict: in a constrained format where the server has one, twice at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Invalid, Reason, Valid
from refusal_checks.models.client.answers import Choice
from refusal_checks.models.client.capabilities import Support
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.http_errors import PromptTooLongError

VERSION = 1
"""Part of a judge's identity: raise it when what is asked, or asked again, changes."""

RETRY_TEMPERATURE = 0.7
"""Least temperature of the second attempt: a greedy judge would only repeat itself."""

UNREADABLE = frozenset({Reason.UNPARSABLE_VERDICT, Reason.UNFINISHED_VERDICT})
"""Why a verdict is asked for once more."""

REFUSED = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses by which servers refuse a field of a request that they do not know."""

Verdict = TypeVar("Verdict", bound=Valid)


class Asker(Generic[Verdict]):
    """Asks one judge model.

    Args:
        client: connection to the judge's server, open while ``ask`` is called.
        parse: reads a verdict; strict, since nothing but the model may have seen to its format.
        schema: JSON schema of the verdict, None for text. A server without structured outputs is
            asked without it, and so is one that refuses this schema, from then on.
        note: takes the line that says so, perhaps several times.
    """

    def __init__(
        self,
        client: Client,
        sampling: JudgeSampling,
        parse: Callable[[str], Verdict | Invalid],
        schema: Mapping[str, Any] | None,
        note: Callable[[str], None],
    ) -> None:
        self._client = client
        self._parse = parse
        self._note = note
        self._first = RequestParams.of(sampling, schema=schema)
        self._second = replace(
            self._first,
            temperature=max(sampling.temperature, RETRY_TEMPERATURE),
            seed=sampling.seed + 1,
        )
        self._tell()

    async def ask(self, messages: Sequence[Message]) -> Verdict | Invalid:
        """A verdict, or why there is none; asks again, with another seed, for an unreadable one."""
        self._client.meter.verdicts += 1
        found = await self._attempt(messages, self._first)
        if isinstance(found, Invalid) and found.reason in UNREADABLE:
            found = await self._attempt(messages, self._second)
            if isinstance(found, Invalid):
                return replace(found, detail=f"asked twice, the second time: {found.detail}")
        return found

    async def _attempt(
        self, messages: Sequence[Message], options: RequestParams
    ) -> Verdict | Invalid:
        try:
            choice = await self._choice(messages, options)
        except PromptTooLongError as fault:
            length = sum(len(turn.content) for turn in messages)
            detail = f"{fault}; instructions, request and answer have {length} characters"
            return Invalid(Reason.JUDGE_INPUT_TOO_LONG, detail)
        except EndpointError as fault:
            return Invalid(Reason.JUDGE_ERROR, str(fault))
        if choice.finish_reason != "stop" or choice.reasoning == "unclosed":
            why = "unclosed reasoning, " if choice.reasoning == "unclosed" else ""
            detail = f"{why}finish reason {choice.finish_reason}: {storable(choice.text[-200:])}"
            return Invalid(Reason.UNFINISHED_VERDICT, detail)
        return self._parse(choice.text)

    async def _choice(self, messages: Sequence[Message], options: RequestParams) -> Choice:
        is_constrained = self._first.schema is not None and self._takes_schemas
        try:
            (choice,) = await self._client.chat(messages, options)
        except PromptTooLongError:
            raise
        except EndpointError as fault:
            if not is_constrained or fault.status not in REFUSED:
                raise
            (choice,) = await self._without_schema(messages, options, fault)
        return choice

    @property
    def _takes_schemas(self) -> bool:
        return self._client.capabilities.structured_outputs is Support.YES

    async def _without_schema(
        self, messages: Sequence[Message], options: RequestParams, refusal: EndpointError
    ) -> Sequence[Choice]:
        """Ask again; if that helps, the server is known to have no structured outputs."""
        try:
            found = await self._client.chat(messages, replace(options, schema=None))
        except EndpointError:
            raise refusal from None  # it was not the schema that the server minded
        if self._takes_schemas:
            lost = replace(self._client.capabilities, structured_outputs=Support.REFUSED)
            self._client.capabilities = lost
            self._tell(f" (HTTP {refusal.status})")
        return found

    def _tell(self, why: str = "") -> None:
        """Say that verdicts are not constrained, where they should be."""
        if self._first.schema is not None:
            for line in self._client.capabilities.missing("structured_outputs").values():
                self._note(f"{line}{why}")
