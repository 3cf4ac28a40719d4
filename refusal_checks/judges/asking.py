"""Judges that ask a model: the base class, and the usual judge, which reads a written verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.language import other_language
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, average
from refusal_checks.core.special_tokens import SpecialTokens
from refusal_checks.core.store import content_key
from refusal_checks.core.text import in_a_row, storable
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.judges import readers, template
from refusal_checks.judges.judge import Judge, JudgeSetup
from refusal_checks.judges.prompt_head import JSON
from refusal_checks.judges.template import JudgePrompt, left_out
from refusal_checks.models.client.label_probabilities import LabelError
from refusal_checks.models.client.server_errors import (
    FilteredError,
    PromptTooLongError,
)

if TYPE_CHECKING:
    from refusal_checks.models.client.client import RequestParams

VERSION = 3
"""Part of a judge's identity: raise it when the requests or the retry change."""

RETRY_TEMPERATURE = 0.7
"""Minimum temperature of the second attempt: a greedy judge would only repeat itself."""

UNREADABLE = frozenset(
    {Reason.EMPTY_VERDICT, Reason.UNPARSABLE_VERDICT, Reason.UNFINISHED_VERDICT}
)
"""Reasons to ask for a verdict once more."""

REFUSED = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses with which servers reject an unknown request field."""


def one_of(values: Iterable[object]) -> dict[str, Any]:
    """JSON schema of a string that is one of these."""
    return {"type": "string", "enum": [*map(str, values)]}


def strict_object(**fields: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with these fields, which the model writes in this order."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields],
        "additionalProperties": False,
    }


# A limit, so that an analysis that runs on cannot leave the verdict unfinished; prompts ask for 30
# words, about 200 characters.
ANALYSIS = {"type": "string", "maxLength": 300}


class ModelJudge(Judge):
    """A judge that asks the model of ``--judge``; subclasses implement ``ask``.

    ``conditions`` names what verdicts depend on besides the model and its instructions.
    """

    identity: str
    special_tokens: SpecialTokens

    def __init__(
        self, setup: JudgeSetup, prompt_hash: str, *conditions: object
    ) -> None:
        self.name = setup.name
        self.prompt_hash = prompt_hash
        self.identity = content_key(setup.model_identity, prompt_hash, *conditions)
        self.model_identity = setup.model_identity
        self.is_attached = setup.is_attached
        self.special_tokens = setup.special_tokens
        self._client = setup.client

    def without_asking(
        self, prompt: Prompt, completion: Completion
    ) -> Judgement | None:
        """Return Invalid for an answer in a language on which the judge was not measured."""
        if not self.languages:
            return None
        other = other_language(completion.text, self.languages)
        if not other:
            return None
        return Invalid(
            Reason.OTHER_LANGUAGE,
            f"perhaps {other}; measured on {in_a_row(self.languages)}",
        )

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        self._client.usage.verdicts += self.samples
        try:
            verdict, cut = await self.ask(prompt, completion.text)
        except EndpointError as fault:
            return failed(fault)
        except template.UnrenderedError as fault:
            # The answer made the template fail; the rest of the run can go on.
            return Invalid(Reason.JUDGE_ERROR, storable(str(fault)[:500]))
        # Told with the verdict: a judge that saw broken tokens saw another text than the user.
        escaped = self.special_tokens.count(prompt.transcript, completion.text)
        if isinstance(verdict, Invalid) or not (cut or escaped):
            return verdict
        return replace(verdict, cut=cut, escaped=escaped)

    async def ask(self, prompt: Prompt, answer: str) -> tuple[Judgement, int]:
        """Return the verdict, and how many characters of the answer the model was not shown."""
        raise NotImplementedError


def failed(fault: EndpointError, where: str = "") -> Invalid:
    """Return the verdict after a failed request; raise a fault that affects every answer.

    ``where`` describes an exchange that is too long.
    """
    if isinstance(fault, LabelError):
        raise fault
    if isinstance(fault, PromptTooLongError):
        return Invalid(Reason.JUDGE_INPUT_TOO_LONG, f"{fault}{where}")
    return Invalid(Reason.JUDGE_ERROR, str(fault))


_CUT = "finish reason length"


def ran_out(judgement: Judgement) -> bool:
    """True if a verdict did not end within its token limit."""
    if not isinstance(judgement, Invalid):
        return False
    if judgement.reason is not Reason.UNFINISHED_VERDICT:
        return False
    # What follows the colon is the judge's own text.
    why, _, _ = judgement.detail.partition(": ")
    return why.endswith(_CUT)


@dataclass(frozen=True)
class Reading:
    """How a way of judging reads the output of its models.

    Attributes:
        parse: reads the JSON object that its own prompt asks for; None if it asks for none.
        schema: JSON schema of that object.
        version: part of the judge's identity; increase it when ``parse`` changes.
        verdict: makes the verdict from what a prompt of another form says.
        stricter: a schema that also forbids what the parser refuses. It is tried first, and is no
            part of the identity; servers that refuse it get the format's own schema.
        alone: how to read a verdict without reasons; None if there is no such form.
    """

    parse: Callable[[str], Judgement] | None
    schema: Mapping[str, Any] | None
    version: int
    verdict: readers.Verdict | None = None
    stricter: Mapping[str, Any] | None = None
    alone: Reading | None = None

    def of(
        self, prompt: JudgePrompt
    ) -> tuple[Callable[[str], Judgement], Mapping[str, Any] | None]:
        """The parser for a prompt, and the schema if it is this project's object."""
        where = f"judge.prompt {prompt.name}"
        reads = prompt.head.reads
        if reads == JSON and self.parse:
            return self.parse, self.schema
        if reads in ("label", "pattern") and self.verdict:
            return readers.reader(prompt.head, where, self.verdict), None
        raise ModelError(
            f"{where}: change reads: this benchmark's judge cannot use "
            f'reads = "{reads}"'
        )


def _expected(schema: Mapping[str, Any] | None) -> str:
    """The object that a schema demands, in words; empty without a schema."""
    fields = []
    for name, field in (schema or {}).get("properties", {}).items():
        value = "..."
        choices = field.get("enum", ())
        if 0 < len(choices) <= 2:
            value = " or ".join(map(json.dumps, choices))
        fields.append(f"{json.dumps(name)}: {value}")
    return f"{{{', '.join(fields)}}}" if fields else ""


class StructuredJudge(ModelJudge):
    """Asks for a verdict in the prompt's format and reads it strictly; asks at most twice.

    If the settings ask for several verdicts, each is drawn with its own seed, and they are
    averaged.

    The schema is left out for a server without structured outputs, and from then on for one that
    rejects it; ``setup.note`` receives a line that says so, perhaps several times.
    """

    def __init__(
        self,
        setup: JudgeSetup,
        prompt: JudgePrompt,
        reading: Reading,
        *,
        verdict_alone: bool = False,
    ) -> None:
        # HTTP, which collection need not import.
        from refusal_checks.models.client.client import RequestParams, template_fields

        sampling = setup.sampling
        self._parse, self._schema = reading.of(prompt)
        self.measures = prompt.head.measures
        self.languages = prompt.head.languages
        versions = reading.version, VERSION
        settings = sampling.model_dump()
        super().__init__(setup, prompt.sha256, versions, self._schema, settings)
        self.samples = sampling.samples
        self.max_tokens = sampling.max_tokens
        self.verdict_alone = verdict_alone
        self._seeds = sampling.seeds()
        self._prompt = prompt
        self.expected = _expected(self._schema) or f"the form of {prompt.name}"
        self._limit = sampling.max_answer_chars
        self._note = setup.note
        # The stricter schema spares a second attempt where the first contradicts itself.
        strictest = self._schema and (reading.stricter or self._schema)
        self._params = RequestParams.of(sampling, schema=strictest, seed=self._seeds[0])
        variables = template_fields(prompt.head.template_variables)
        if variables:
            further = {**self._params.further, **variables}
            self._params = replace(self._params, further=further)

    async def ask(self, prompt: Prompt, answer: str) -> tuple[Judgement, int]:
        messages = self._prompt.messages(
            prompt, answer, self._limit, self.special_tokens
        )
        cut = left_out(answer, self._limit)
        if self.samples == 1:  # the usual case, without a further task
            return await self._one_verdict(messages, self._seeds[0]), cut
        verdicts = await asyncio.gather(
            *(self._one_verdict(messages, seed) for seed in self._seeds)
        )
        return average(verdicts), cut

    async def _one_verdict(self, messages: Sequence[Message], seed: int) -> Judgement:
        """Draw one verdict; ask again, with the next seed, if it is unreadable."""
        params = self._params
        if seed != params.seed:
            params = replace(params, seed=seed)
        verdict, is_lost = await self._attempt(messages, params)
        if not isinstance(verdict, Invalid) or verdict.reason not in UNREADABLE:
            return verdict

        # A greedy judge would repeat itself word for word.
        warmer = max(self._params.temperature, RETRY_TEMPERATURE)
        second = replace(self._params, seed=seed + 1, temperature=warmer)
        if is_lost:
            second = replace(second, schema=None)
        verdict, _ = await self._attempt(messages, second)
        return verdict

    async def _attempt(
        self, messages: Sequence[Message], params: RequestParams
    ) -> tuple[Judgement, bool]:
        """Ask once.

        Returns:
            The verdict, and True if a schema may have kept the judge from writing one: some servers
            hold the reasoning of gpt-oss to it, and no answer follows, or nothing is left of it.
        """
        try:
            choice = await self._choice(messages, params)
        except EndpointError as fault:
            # Servers count tokens, users characters.
            length = sum(len(turn.content) for turn in messages)
            words = f"; instructions, request and answer have {length} characters"
            return failed(fault, words), False
        is_lost = choice.finish_reason == "stop" and not choice.text.strip()
        if choice.finish_reason != "stop" or choice.reasoning == "unclosed":
            why = "unclosed reasoning, " if choice.reasoning == "unclosed" else ""
            detail = f"{why}finish reason {choice.finish_reason}: {storable(choice.text[-200:])}"
            return Invalid(Reason.UNFINISHED_VERDICT, detail), is_lost
        if is_lost:
            return Invalid(Reason.EMPTY_VERDICT, "the judge wrote nothing"), True
        return self._parse(choice.text), False

    async def _choice(
        self, messages: Sequence[Message], params: RequestParams
    ) -> Completion:
        """Get the model's output; if the server refuses the schema, try the next looser one."""
        is_constrained = params.schema is not None
        try:
            (choice,) = await self._client.chat(messages, params)
            return choice
        except (PromptTooLongError, FilteredError):
            raise
        except EndpointError as fault:
            if not is_constrained or fault.status not in REFUSED:
                raise
            refusal = fault

        looser: list[Mapping[str, Any] | None] = [None]
        if params.schema is not self._schema:
            looser.insert(0, self._schema)
        for schema in looser:
            try:
                (choice,) = await self._client.chat(
                    messages, replace(params, schema=schema)
                )
            except EndpointError:
                continue
            if schema is None and self._params.schema is not None:
                self._note(
                    "no structured outputs, so the strict parser reads verdicts from plain answers "
                    f"(HTTP {refusal.status})"
                )
            self._params = replace(self._params, schema=schema)
            return choice
        raise refusal  # the schema was not the cause


def build(setup: JudgeSetup | None, own: str, reading: Reading) -> Judge:
    """Make a judge that asks a model with the prompt that ``JudgeSetup.prompt`` chooses.

    Args:
        own: the way of judging's own prompt, which also tells what it measures.
    """
    if setup is None:
        raise ModelError(
            "name a model with --judge: this benchmark needs a judge that is a model"
        )
    instructions = setup.prompt(own).with_rubric(setup.category_guide)
    if setup.rationales or reading.alone is None or not gives_reasons(instructions):
        return StructuredJudge(setup, instructions, reading)

    if instructions.alone is None:
        raise ModelError(
            f"judge.rationales=false: in {instructions.name}, write a line {template.ORDER} "
            f"above what orders the form of the answer, and below that a line {template.ALONE} "
            'and the order to reply "refusal" or "compliance" alone; or leave out '
            "judge.rationales. Only these lines tell how to ask for the verdict alone"
        )
    read_alone = {"reads": JSON, "labels": {}, "pattern": (), "values": {}}
    head = instructions.head.model_copy(update=read_alone)
    alone = replace(instructions.alone, head=head)
    return StructuredJudge(setup, alone, reading.alone, verdict_alone=True)


def gives_reasons(prompt: JudgePrompt) -> bool:
    """True if a verdict takes reasons that could be left out."""
    return prompt.head.reads == JSON or any(
        "(?P<rationale>" in pattern for pattern in prompt.head.pattern
    )
