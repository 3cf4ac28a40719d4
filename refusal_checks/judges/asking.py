"""A judge that asks a model for a verdict: under a schema if possible, at most twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, average
from refusal_checks.core.store import content_key
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Binary, Chosen, Graded, Harm, Invalid, Reason
from refusal_checks.judges import template
from refusal_checks.judges.base import Judge, JudgeSetup
from refusal_checks.judges.template import JudgePrompt, left_out
from refusal_checks.models.client.capabilities import Support
from refusal_checks.models.client.errors import PromptTooLongError

if TYPE_CHECKING:
    from refusal_checks.models.client.answers import Choice
    from refusal_checks.models.client.client import RequestParams

VERSION = 1
"""Part of a judge's identity: raise it when the requests or the retry change."""

RETRY_TEMPERATURE = 0.7
"""Minimum temperature of the second attempt: a greedy judge would only repeat itself."""

UNREADABLE = frozenset({Reason.UNPARSABLE_VERDICT, Reason.UNFINISHED_VERDICT})
"""Reasons to ask for a verdict once more."""

REFUSED = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses with which servers reject an unknown request field."""

Verdict = TypeVar("Verdict", Binary, Graded, Harm, Chosen)


@dataclass(frozen=True)
class Reading(Generic[Verdict]):
    """How one kind of judge's output is read.

    Attributes:
        formats: by each format that a template may declare: the parser, and the JSON schema if the
            output has one, its fields in the order in which the model writes them.
        version: part of the judge's identity; raised when a parser changes.
        stricter: a schema that also forbids what the parser refuses. It is asked for first, and no
            part of the identity; servers that refuse it get the format's own.
        alone: how a verdict without reasons is read, whatever the format; None if these verdicts
            are always asked for whole.
        terse: formats that have no reasons.
    """

    formats: Mapping[str, tuple[Callable[[str], Verdict | Invalid], Mapping[str, Any] | None]]
    version: int
    stricter: Mapping[str, Any] | None = None
    alone: Reading[Verdict] | None = None
    terse: frozenset[str] = frozenset()


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
        from refusal_checks.models.client.client import RequestParams  # HTTP: not for collection

        sampling = setup.sampling
        parse, self._schema = reading.formats[prompt.format]
        self.name = setup.name
        self.prompt_hash = prompt.sha256
        self.identity = content_key(
            setup.model_identity,
            prompt.sha256,
            (reading.version, VERSION),
            self._schema,
            sampling.conditions,
        )
        self.special_tokens = setup.special_tokens
        self.samples = sampling.samples
        self.reasoned = reasoned
        self._parse: Callable[[str], Verdict | Invalid] = parse
        self._seeds = sampling.seeds()
        self._prompt = prompt
        self._limit = sampling.max_answer_chars
        self._client = setup.client
        self._note = setup.note
        strictest = self._schema and (reading.stricter or self._schema)
        self._params = RequestParams.of(sampling, schema=strictest)
        self._note_missing(
            ["structured_outputs"] * (self._schema is not None)
            + ["top_k"] * bool(sampling.top_k)
            + ["seed"] * (sampling.samples > 1)
        )

    async def judge(self, prompt: Prompt, completion: Completion) -> Verdict | Invalid:
        """See ``Judge.judge``; several verdicts are averaged."""
        special = self.special_tokens
        messages = self._prompt.messages(prompt, completion.text, self._limit, special)
        self._client.meter.verdicts += self.samples
        if self.samples == 1:  # the usual case, without a further task
            verdict = await self._drawn(messages, self._seeds[0])
        else:
            drawn = await asyncio.gather(*(self._drawn(messages, seed) for seed in self._seeds))
            verdict = cast(Verdict | Invalid, average(drawn))
        if isinstance(verdict, Invalid):
            return verdict
        cut = left_out(completion.text, self._limit)
        escaped = special.count(prompt.transcript, completion.text)
        return replace(verdict, cut=cut, escaped=escaped) if cut or escaped else verdict

    async def _drawn(self, messages: Sequence[Message], seed: int) -> Verdict | Invalid:
        """One verdict; asks again, with the next seed, if it is unreadable."""
        verdict = await self._attempt(messages, replace(self._params, seed=seed))
        if isinstance(verdict, Invalid) and verdict.reason in UNREADABLE:
            warmer = max(self._params.temperature, RETRY_TEMPERATURE)
            second = replace(self._params, seed=seed + 1, temperature=warmer)
            verdict = await self._attempt(messages, second)
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
        """The model's output; if the server refuses the schema, with the next looser one."""
        is_constrained = params.schema is not None and self._takes_schemas
        try:
            (choice,) = await self._client.chat(messages, params)
            return choice
        except PromptTooLongError:
            raise
        except EndpointError as fault:
            if not is_constrained or fault.status not in REFUSED:
                raise
            refusal = fault
        for schema in (self._schema, None) if params.schema is not self._schema else (None,):
            try:
                (choice,) = await self._client.chat(messages, replace(params, schema=schema))
            except EndpointError:
                continue
            if schema is not None:
                self._params = replace(self._params, schema=schema)
            elif self._takes_schemas:
                lost = replace(self._client.capabilities, structured_outputs=Support.REFUSED)
                self._client.capabilities = lost
                self._note_missing(["structured_outputs"], f" (HTTP {refusal.status})")
            return choice
        raise refusal  # the schema was not the cause

    @property
    def _takes_schemas(self) -> bool:
        return self._client.capabilities.structured_outputs is Support.YES

    def _note_missing(self, wanted: Sequence[str], why: str = "") -> None:
        """Note what the server lacks of these capabilities."""
        for line in self._client.capabilities.missing(*wanted).values():
            self._note(f"{line}{why}")


def build(setup: JudgeSetup | None, prompt: str, demo: str, reading: Reading[Verdict]) -> Judge:
    """Make a judge that asks a model.

    Args:
        prompt, demo: see ``JudgeSetup.prompt``.
    """
    if setup is None:
        raise ModelError("name a model with --judge: this benchmark needs a judge that is a model")
    found = template.load(setup.prompt(prompt, demo), tuple(reading.formats))
    instructions = found.with_rubric(setup.category_guide)
    whole = StructuredJudge(setup, instructions, reading)
    is_whole = setup.rationales == "all" or instructions.format in reading.terse
    if is_whole or (alone := reading.alone) is None:
        return whole
    if instructions.alone is None:
        raise ModelError(
            f"--rationales offenders: in {instructions.name}, write a line {template.ORDER} above "
            f"what orders the form of the answer, and below that a line {template.ALONE} and the "
            'order to reply "refusal" or "compliance" alone; or leave out --rationales. Without '
            "these lines nothing tells how to ask for the verdict alone"
        )
    return StructuredJudge(setup, replace(instructions.alone, format=template.JSON), alone, whole)
