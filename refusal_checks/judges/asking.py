"""A judge that asks a model for a verdict: under a schema if possible, at most twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, cast

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, average
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.core.store import content_key
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.judges.base import Judge, JudgeSetup
from refusal_checks.judges.structured import Reading, Verdict
from refusal_checks.judges.template import JudgePrompt, left_out
from refusal_checks.models.client.answers import Choice
from refusal_checks.models.client.capabilities import Support
from refusal_checks.models.client.client import RequestParams
from refusal_checks.models.client.errors import PromptTooLongError

VERSION = 1
"""Part of a judge's identity: raise it when the requests or the retry change."""

RETRY_TEMPERATURE = 0.7
"""Minimum temperature of the second attempt: a greedy judge would only repeat itself."""

UNREADABLE = frozenset({Reason.UNPARSABLE_VERDICT, Reason.UNFINISHED_VERDICT})
"""Reasons to ask for a verdict once more."""

REFUSED = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses with which servers reject an unknown request field."""


class StructuredJudge(Generic[Verdict]):
    """Asks a model for a verdict in its prompt's format and reads it strictly.

    Where the settings ask for several verdicts, each is drawn with a seed of its own.

    The schema is left out for a server without structured outputs and, from then on, for one that
    rejects it; ``setup.note`` takes the line that says so, perhaps several times.

    Args:
        prompt: in one of the formats of ``reading``.
        reasoned: see ``base.reasoned``.
    """

    def __init__(
        self,
        setup: JudgeSetup,
        prompt: JudgePrompt,
        reading: Reading[Verdict],
        reasoned: Judge | None = None,
    ) -> None:
        sampling = setup.sampling
        parse, schema = reading.formats[prompt.format]
        versions = (reading.version, VERSION)
        self.name = setup.name
        self.prompt_hash = prompt.sha256
        self.identity = content_key(
            setup.model_identity, prompt.sha256, versions, schema, sampling.conditions
        )
        self.special_tokens = setup.special_tokens
        self.samples = sampling.samples
        self.reasoned = reasoned
        self._seeds = sampling.seeds()
        self._prompt = prompt
        self._parse: Callable[[str], Verdict | Invalid] = parse
        self._limit = sampling.max_answer_chars
        self._client = setup.client
        self._note = setup.note
        self._schema = schema
        self._first = RequestParams.of(sampling, schema=schema and (reading.stricter or schema))
        self._second = replace(
            self._first,
            temperature=max(sampling.temperature, RETRY_TEMPERATURE),
        )
        self._note_unconstrained()
        self._note_unsampled(sampling)

    async def judge(self, prompt: Prompt, completion: Completion) -> Verdict | Invalid:
        """See ``Judge.judge``; several verdicts are averaged."""
        special = self.special_tokens
        messages = self._prompt.messages(prompt, completion.text, self._limit, special)
        self._client.meter.verdicts += self.samples
        verdict = await self._averaged(messages)
        if isinstance(verdict, Invalid):
            return verdict
        cut = left_out(completion.text, self._limit)
        escaped = special.count(prompt.transcript, completion.text)
        return replace(verdict, cut=cut, escaped=escaped) if cut or escaped else verdict

    async def _averaged(self, messages: Sequence[Message]) -> Verdict | Invalid:
        """The verdict, or the average of several, which are asked for at one time."""
        if self.samples == 1:  # the usual case, without a further task
            return await self._drawn(messages, self._seeds[0])
        drawn = await asyncio.gather(*(self._drawn(messages, seed) for seed in self._seeds))
        return cast(Verdict | Invalid, average(drawn))

    async def _drawn(self, messages: Sequence[Message], seed: int) -> Verdict | Invalid:
        """One verdict; asks again, with the next seed, if it is unreadable."""
        first = self._first if seed == self._first.seed else replace(self._first, seed=seed)
        verdict = await self._attempt(messages, first)
        if isinstance(verdict, Invalid) and verdict.reason in UNREADABLE:
            verdict = await self._attempt(messages, replace(self._second, seed=seed + 1))
            if isinstance(verdict, Invalid):
                return replace(verdict, detail=f"asked twice; second attempt: {verdict.detail}")
        return verdict

    async def _attempt(
        self, messages: Sequence[Message], params: RequestParams
    ) -> Verdict | Invalid:
        try:
            choice = await self._choice(messages, params)
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

    async def _choice(self, messages: Sequence[Message], params: RequestParams) -> Choice:
        is_constrained = self._first.schema is not None and self._takes_schemas
        try:
            (choice,) = await self._client.chat(messages, params)
        except PromptTooLongError:
            raise
        except EndpointError as fault:
            if not is_constrained or fault.status not in REFUSED:
                raise
            (choice,) = await self._loosened(messages, params, fault)
        return choice

    @property
    def _takes_schemas(self) -> bool:
        return self._client.capabilities.structured_outputs is Support.YES

    async def _loosened(
        self, messages: Sequence[Message], params: RequestParams, refusal: EndpointError
    ) -> Sequence[Choice]:
        """Ask with the format's own schema if a stricter one was refused, then without one."""
        if params.schema is self._schema:
            return await self._without_schema(messages, params, refusal)
        plain = replace(params, schema=self._schema)
        try:
            choices = await self._client.chat(messages, plain)
        except EndpointError:
            return await self._without_schema(messages, plain, refusal)
        self._first = replace(self._first, schema=self._schema)
        self._second = replace(self._second, schema=self._schema)
        return choices

    async def _without_schema(
        self, messages: Sequence[Message], params: RequestParams, refusal: EndpointError
    ) -> Sequence[Choice]:
        """Ask again; if that helps, record that the server has no structured outputs."""
        try:
            choices = await self._client.chat(messages, replace(params, schema=None))
        except EndpointError:
            raise refusal from None  # the schema was not the cause
        if self._takes_schemas:
            lost = replace(self._client.capabilities, structured_outputs=Support.REFUSED)
            self._client.capabilities = lost
            self._note_unconstrained(f" (HTTP {refusal.status})")
        return choices

    def _note_unsampled(self, sampling: JudgeSampling) -> None:
        """Note what the server lacks of the settings by which verdicts are drawn."""
        wanted = ["top_k"] * bool(sampling.top_k) + ["seed"] * (sampling.samples > 1)
        for line in self._client.capabilities.missing(*wanted).values():
            self._note(line)

    def _note_unconstrained(self, why: str = "") -> None:
        """Note that the server does not constrain verdicts, if they have a schema."""
        if self._first.schema is not None:
            for line in self._client.capabilities.missing("structured_outputs").values():
                self._note(f"{line}{why}")
