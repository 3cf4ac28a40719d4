"""Readers of replies in words: a JSON object, a label, or a text that a pattern matches.

All of an output must have its form: text before or after a verdict may be another verdict. White
space, an end-of-text token and reasoning before it are tolerated, and around a label bold type and
a full stop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.judgements import Invalid, Judgement, Reason
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, average
from refusal_checks.core.text import replace_surrogates
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.model_judge import (
    Form,
    ModelJudge,
    Reading,
    Statement,
    handle_failure,
)
from refusal_checks.judges.parsing import (
    MOST_CHARACTERS,
    enum_schema,
    reject_output,
    strip_ends,
    strip_reasoning,
)
from refusal_checks.judges.prompt_metadata import NO_LABEL, Meaning, PromptMetadata
from refusal_checks.judges.template import JudgePrompt
from refusal_checks.models.client.server_errors import (
    FilteredError,
    PromptTooLongError,
)

if TYPE_CHECKING:
    from refusal_checks.models.client.client import RequestParams

Parse = Callable[[str], Judgement]

VERSION = 3
"""Part of a judge's identity: raise it when requests or retries change."""

RETRY_TEMPERATURE = 0.7
"""Minimum temperature of the second attempt: a greedy judge would only repeat itself."""

REFUSED = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses with which servers reject an unknown request field."""


def make_judge(setup: JudgeSetup, prompt: JudgePrompt, reading: Reading) -> ModelJudge:
    """Make the judge."""
    metadata, sampling = prompt.metadata, setup.sampling
    form = reading.form
    if form is None or metadata.reads != "json":
        # A fine-tuned judge writes the form of its training by itself.
        is_held = metadata.reads == "label" and not metadata.models
        schemas = (enum_schema(metadata.labels),) if is_held else ()
        version = form.version if form else 1
        form = Form(make_parser(prompt, reading.make_judgement), schemas, version)
    schema = form.schemas[-1] if form.schemas else None
    return ModelJudge(
        setup,
        _Asker(setup, prompt, form).ask,
        ((form.version, VERSION), schema, sampling.model_dump()),
        prompt.sha256,
        criterion=metadata.measures,
        languages=metadata.languages,
        limit=sampling.max_answer_chars,
        samples=sampling.samples,
        max_tokens=sampling.max_tokens,
        expected=f"the form that judge prompt {prompt.name} asks for",
    )


class _Asker:
    """Asks for a verdict in the prompt's form and reads it strictly; asks at most twice.

    If the settings ask for several verdicts, each is drawn with its own seed, and they are
    averaged. A schema that the server refuses is left out from then on.
    """

    def __init__(self, setup: JudgeSetup, prompt: JudgePrompt, form: Form) -> None:
        # HTTP, which collection need not import.
        from refusal_checks.models.client.client import RequestParams, template_fields

        sampling = setup.sampling
        self._setup = setup
        self._prompt = prompt
        self._parse = form.parse
        self._schemas: list[Mapping[str, Any] | None] = [*form.schemas, None]
        variables = template_fields(prompt.metadata.template_variables)
        params = RequestParams.from_sampling(sampling)
        further = {**params.further, **variables}
        # Made once: a run asks for tens of thousands of verdicts.
        self._draws = [
            replace(params, seed=seed, further=further) for seed in sampling.seeds()
        ]

    async def ask(self, prompt: Prompt, answer: str) -> Judgement:
        sampling = self._setup.sampling
        messages = self._prompt.messages(prompt, answer, sampling.max_answer_chars)
        if len(self._draws) == 1:  # without the cost of a task
            return await self._one_verdict(messages, self._draws[0])
        # At once: the engine has the shared prompt in its prefix cache, so a further verdict costs
        # little more than its own tokens.
        verdicts = await asyncio.gather(
            *(self._one_verdict(messages, params) for params in self._draws)
        )
        return average(verdicts)

    async def _one_verdict(
        self, messages: Sequence[Message], params: RequestParams
    ) -> Judgement:
        """Draw one verdict; ask again, with the next seed, if it is unreadable."""
        verdict = await self._attempt(messages, params, self._schemas)
        if not isinstance(verdict, Invalid) or not verdict.reason.asks_twice:
            return verdict

        # A greedy judge would repeat itself word for word.
        warmer = max(params.temperature, RETRY_TEMPERATURE)
        second = replace(params, seed=params.seed + 1, temperature=warmer)
        # A schema may have kept it from writing a verdict: some servers hold the reasoning of
        # gpt-oss to it, and no answer follows.
        is_lost = verdict.reason is not Reason.UNPARSABLE_VERDICT
        schemas = [None] if is_lost else self._schemas
        return await self._attempt(messages, second, schemas)

    async def _attempt(
        self,
        messages: Sequence[Message],
        params: RequestParams,
        schemas: Sequence[Mapping[str, Any] | None],
    ) -> Judgement:
        try:
            choice = await self._choice(messages, params, schemas)
        except EndpointError as fault:
            # Servers count tokens, users characters.
            length = sum(len(turn.content) for turn in messages)
            words = f"; instructions, request and answer have {length} characters"
            return handle_failure(fault, words)
        # A verdict that a limit cut may have gone on to say the opposite.
        if choice.finish_reason != "stop" or choice.reasoning == "unclosed":
            why = "unclosed reasoning, " if choice.reasoning == "unclosed" else ""
            end = replace_surrogates(choice.text[-200:])
            detail = f"{why}finish reason {choice.finish_reason}: {end}"
            return Invalid(Reason.UNFINISHED_VERDICT, detail)
        if not choice.text.strip():
            return Invalid(Reason.EMPTY_VERDICT, "the judge wrote nothing")
        return self._parse(choice.text)

    async def _choice(
        self,
        messages: Sequence[Message],
        params: RequestParams,
        schemas: Sequence[Mapping[str, Any] | None],
    ) -> Completion:
        """Get the model's output; if the server refuses a schema, try the next looser one."""
        refusal: EndpointError | None = None
        for schema in schemas:
            try:
                (choice,) = await self._setup.client.chat(messages, params, schema)
            except (PromptTooLongError, FilteredError):
                # Also HTTP 400, but of this exchange: no looser schema would help.
                raise
            except EndpointError as fault:
                # The first refusal tells what is wrong if the schema is not.
                refusal = refusal or fault
                if fault.status not in REFUSED:
                    break
                continue
            # Unless another request found it before, ask in this way from then on.
            if refusal and schemas is self._schemas:
                self._schemas = self._schemas[self._schemas.index(schema) :]
                if schema is None:
                    self._setup.note(
                        "no structured outputs, so the strict parser reads verdicts from plain "
                        f"answers (HTTP {refusal.status})"
                    )
            return choice
        assert refusal
        raise refusal


# Labels and patterns.

MOST_RATIONALE = 500
"""How many characters are kept from the end of a rationale."""

_LABEL = re.compile(r"(?:\*\*)?(.{1,200}?)(?:\*\*)?\.?", re.DOTALL)

_SPACES = re.compile(r"[ \t\r\n]+")


def make_parser(
    prompt: JudgePrompt, verdict: Callable[[Statement], Judgement]
) -> Parse:
    """The function that reads outputs as a prompt's front matter says."""
    metadata = prompt.metadata
    if metadata.reads == "label":
        read = partial(_read_label, metadata)
    else:
        where = f"judge.prompt {prompt.name}"
        patterns = [_compile_checked(metadata, one, where) for one in metadata.pattern]
        read = partial(_read_pattern, metadata, patterns)

    def parse(text: str) -> Judgement:
        # The engine of patterns takes UTF-8, which a lone surrogate has not.
        if len(text) > MOST_CHARACTERS or replace_surrogates(text) != text:
            return reject_output(text)
        statement = read(strip_ends(strip_reasoning(text)))
        if statement is None:
            return reject_output(text)
        if statement.meaning == NO_LABEL:
            return Invalid(Reason.NO_LABEL, statement.rationale)
        return verdict(statement)

    return parse


def _read_label(metadata: PromptMetadata, output: str) -> Statement | None:
    # Only a fine-tuned judge is not held to a schema, in which a label is a JSON text.
    label = _LABEL.fullmatch(output if metadata.models else output.strip('"'))
    meaning = find_meaning(label[1], metadata.labels) if label else None
    if label is None or meaning is None:
        return None
    return Statement(meaning, f"says {label[1]}")


def _read_pattern(
    metadata: PromptMetadata, patterns: Sequence[Any], output: str
) -> Statement | None:
    # As a whole, not searched for: an answer that quotes "unsafe" could otherwise be read as the
    # guard's own word.
    matches = filter(None, (pattern.fullmatch(output) for pattern in patterns))
    match = next(matches, None)
    if match is None:
        return None
    groups = match.groupdict()
    meaning = _find_measured(metadata, groups[metadata.measures] or "")
    if meaning is None:
        return None
    rationale = groups.get("rationale")
    if rationale is None:
        lines = (line.strip() for line in output.splitlines())
        rationale = "; ".join(filter(None, lines))
    category = groups.get("category") or ""
    return Statement(meaning, rationale.strip()[-MOST_RATIONALE:], category[:200])


def _find_measured(metadata: PromptMetadata, text: str) -> Meaning | None:
    if metadata.labels:
        return find_meaning(text, metadata.labels)
    try:
        number = float(text)
    except ValueError:
        return None
    return number if metadata.is_on_scale(number) else None


def find_meaning(text: str, meanings: Mapping[str, Meaning]) -> Meaning | None:
    """The meaning of a label in upper or lower case; None for other texts."""
    text = _SPACES.sub(" ", text)
    if text in meanings:
        return meanings[text]
    # Some letters of other alphabets become ASCII in lower case.
    if not text.isascii():
        return None
    for label, meaning in meanings.items():
        if label.lower() == text.lower():
            return meaning
    return None


@cache
def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _compile_checked(metadata: PromptMetadata, text: str, where: str) -> Any:
    """Compile a regular expression, in an engine that takes linear time for any output.

    Raises ModelError for one that needs backtracking, or that has no group for what is measured.
    """
    # Python's expressions can take exponential time, on a text that a candidate can steer.
    import re2

    try:
        pattern = _compile(text)
    except re2.error as fault:
        words = fault.args[0] if fault.args else ""
        if isinstance(words, bytes):
            words = words.decode(errors="replace")
        raise ModelError(
            f"{where}: write pattern in the syntax of RE2 (no look-around, no back-references, no "
            f"possessive repetition), which reads any output in linear time: {words}"
        ) from None
    if metadata.measures not in pattern.groupindex:
        raise ModelError(
            f"{where}: write (?P<{metadata.measures}>...) in pattern around what says so: the "
            f"judge measures {metadata.measures}"
        )
    return pattern
