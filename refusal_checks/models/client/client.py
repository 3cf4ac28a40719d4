"""Client of one model on an OpenAI-compatible server: answers, and probabilities of labels."""

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import SamplingBase
from refusal_checks.core.text import replace_surrogates
from refusal_checks.models.client.chat_replies import (
    LEAST,
    is_cut_by_context,
    read_choices,
    require_finished,
)
from refusal_checks.models.client.label_probabilities import (
    LabelError,
    LabelProbabilities,
    label_fields,
    read_labels,
)
from refusal_checks.models.client.server_errors import (
    ANSWERED,
    ATTEMPTS_BUSY,
    MALFORMED,
    PromptTooLongError,
    TransientError,
    error_words,
    pause,
    refused_field,
)
from refusal_checks.models.client.transport import (
    ConnectionSettings,
    HttpTransport,
    Transport,
)
from refusal_checks.models.client.usage import Usage, token_counts
from refusal_checks.models.model_names import Attached, ModelOptions, Served

CHAT = "/chat/completions"

TEMPLATE_FIELD = "chat_template_kwargs"

NEEDED = {
    "messages",
    "response_format",
    "max_completion_tokens",
    TEMPLATE_FIELD,
}
"""Fields that a request cannot leave out without asking for something else."""

TOKENIZE = "/../tokenize"  # on vLLM, beside /v1 and not below it

Read = TypeVar("Read")

MOST_NAMES = 5
"""How many model names to keep from a server's answers."""

CHARACTERS_A_TOKEN, TOKENS_A_WORD = 6, 0.75
"""More characters than tokens have on average, and fewer tokens than words have, by any tokenizer.
A server that read less by both has cut the conversation; characters alone do not show it, since one
token may be many spaces."""


@dataclass(frozen=True)
class RequestParams:
    """How ``n`` answers to one request are sampled.

    Attributes:
        top_k: 0 for no limit; always sent, since servers' defaults differ.
        seed: seed of the first answer; vLLM uses seed + i for answer i.
        return_token_ids: True to have each answer's tokens listed, and so counted.
        further: the run's other settings, by their names in requests.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512
    seed: int = 0
    logprobs: bool = False
    return_token_ids: bool = False
    stop: tuple[str, ...] = ()
    further: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_sampling(cls, sampling: SamplingBase, **others: Any) -> Self:
        """Make a run's parameters from those of its settings that requests carry.

        A setting without a field here is left out of requests while it has its default, since not
        every server knows it.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        own: dict[str, Any] = {}
        further: dict[str, Any] = {}
        for name, value in sampling.sent.items():
            if name in names:
                own[name] = value
            elif value != type(sampling).model_fields[name].default:
                further[name] = value
        return cls(**own | {"further": further} | others)

    @cached_property
    def body(self) -> dict[str, Any]:
        """All parameters as request fields; what is None, False or empty is left out."""
        values = {**vars(self), **self.further}
        del values["further"]
        body = {}
        for name, value in values.items():
            if value not in (None, ()) and value is not False:
                body[name] = value
        return body


def template_fields(variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Request fields that set variables of the chat template; the user's own come before these."""
    return {TEMPLATE_FIELD: dict(variables)} if variables else {}


class Client:
    """A connection to one model on one server; use as an asynchronous context manager.

    A ``transport`` takes the requests instead of HTTP to ``url``.

    Attributes:
        left_out: request fields that the server refused; further requests do without them. In
            place of ``max_tokens``, ``max_completion_tokens`` is sent.
        attempts: most attempts at one request; callers may set it.
        context: most tokens of prompt and answer together, if known.
        answered: some of the model names in the server's answers.
        classifies: True for a sequence classifier, which gives labels and no text.
        moderates: True for a moderation endpoint, which gives categories of harm and no text.
        categories: the categories that it has given so far.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        options: ModelOptions | Served | Attached = ModelOptions(),  # noqa: B008 (it is frozen)
        connection: ConnectionSettings = ConnectionSettings(),  # noqa: B008 (it is frozen)
        transport: Transport | None = None,
    ) -> None:
        self.url = url
        self.model = model
        self.left_out: set[str] = set()
        self.attempts = ATTEMPTS_BUSY
        self.usage = Usage()
        self.answered: set[str] = set()
        self.classifies = False
        self.moderates = isinstance(options, Attached) and options.moderates
        self.categories: set[str] = set()
        self.context: int | None = None
        self._template = dict(options.template_kwargs)
        self._reasoning_end = options.reasoning_end
        self._judge_reasoning = options.judge_reasoning
        self._transport: Transport = transport or HttpTransport(url, connection)
        self._label_ids: dict[tuple[str, ...], Mapping[str, int] | None] = {}
        self._lock = asyncio.Lock()

    @property
    def answers_as(self) -> str:
        """The other model that the server's answers name; empty if there is none."""
        # A gateway may add an organisation, or leave it out.
        own = self.model.rpartition("/")[2].casefold()
        # Aliases for a dated version.
        own = own.removesuffix("-latest").removesuffix("-stable")
        for name in sorted(self.answered):
            # OpenAI answers requests for gpt-4o as gpt-4o-2024-08-06.
            rest = name.rpartition("/")[2].casefold().removeprefix(own)
            if not re.fullmatch(r"([-:](\d[\d.-]*|latest)|@[\w.-]+)?", rest):
                return name
        return ""

    async def __aenter__(self) -> Self:
        # A lock belongs to one event loop, and a client may see several.
        self._lock = asyncio.Lock()
        if isinstance(self._transport, HttpTransport):
            await self._transport.__aenter__()
        return self

    async def __aexit__(self, *fault: object) -> None:
        if isinstance(self._transport, HttpTransport):
            await self._transport.__aexit__()

    async def chat(
        self,
        messages: Sequence[Message],
        params: RequestParams,
        schema: Mapping[str, Any] | None = None,
    ) -> tuple[Completion, ...]:
        """Request ``params.n`` answers to a conversation; a server without ``n`` gives one.

        A server that refuses that many tokens is asked for half of them, and so on: each has words
        of its own for what prompt and context leave.

        Args:
            schema: JSON schema that answers must follow, if any.
        """
        fields = params.body
        if schema is not None:
            form = {"name": "verdict", "strict": True, "schema": schema}
            fields = {
                **fields,
                "response_format": {"type": "json_schema", "json_schema": form},
            }
        requested = params.max_tokens
        # A server that knows its context refuses more tokens than it has.
        limit = min(requested, self.context or requested)

        def read(response: Any) -> tuple[Completion, ...]:
            choices = []
            for choice in read_choices(
                response,
                params.n,
                self._reasoning_end,
                judge_reasoning=self._judge_reasoning,
            ):
                if is_cut_by_context(choice, response, limit, requested, self.context):
                    choice = replace(choice, room=choice.tokens)
                choices.append(choice)
            return tuple(choices)

        while True:
            try:
                return await self.ask(messages, {**fields, "max_tokens": limit}, read)
            except PromptTooLongError as fault:
                # Without a status it is our own finding, that the server cut the conversation.
                if not fault.status or limit <= LEAST:
                    raise
                limit = max(LEAST, limit // 2)

    async def label_probabilities(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        variables: Mapping[str, Any] | None = None,
    ) -> LabelProbabilities:
        """The probability of each label as the first token of an answer to a conversation.

        These are the model's own probabilities, before any mask or sampling setting. They are exact
        for any label if the server has vLLM's ``/tokenize`` and ``logprob_token_ids``; otherwise
        they are read from the ``TOP`` most probable tokens. Raises LabelError if the server gives
        no log-probabilities, or a label is not a single token of the model.

        Args:
            variables: of the chat template.
        """
        ids = await self._ids(tuple(labels))
        try:
            return await self.ask(
                messages,
                {**label_fields(ids), **template_fields(variables)},
                lambda response: read_labels(response["choices"][0], labels, ids),
            )
        except LabelError as fault:
            raise LabelError(f"{self.url}: {fault}") from None

    async def ask(
        self,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        read: Callable[[Any], Read],
    ) -> Read:
        """Send a conversation with further request fields, in several attempts if need be.

        A field that the server refuses by name is left out, and from then on if that helped.
        ``read`` takes the parsed answer; if it raises one of ``MALFORMED`` or a TransientError, the
        server is asked again.
        """
        turns = [{"role": turn.role, "content": turn.content} for turn in messages]
        body = {"messages": turns, **fields}
        if self._template:
            own = body.get(TEMPLATE_FIELD, {})
            body[TEMPLATE_FIELD] = {**own, **self._template}

        def finished(response: Any) -> Read:
            require_finished(response)
            self._require_whole(messages, response)
            return read(response)

        refused: set[str] = set()
        while True:
            for name in (self.left_out | refused) & body.keys():
                value = body.pop(name)
                # OpenAI's reasoning models take the new name alone, most other servers the old one.
                if name == "max_tokens":
                    body["max_completion_tokens"] = value
            try:
                answer = await self.post(CHAT, body, finished)
            except EndpointError as fault:
                named = refused_field(fault, body.keys() - NEEDED)
                if not named:
                    raise
                refused.add(named)
            else:
                # Not before an answer: the words of a refusal may name a field by chance.
                self.left_out |= refused
                return answer

    def _require_whole(self, messages: Sequence[Message], response: Any) -> None:
        """Raise if the server read only a part of the conversation.

        Ollama cuts what does not fit, and some chat templates leave out system messages.
        """
        read = token_counts(response)[0]
        characters = sum(len(turn.content) for turn in messages)
        if not read or characters <= CHARACTERS_A_TOKEN * read:
            return
        words = sum(len(turn.content.split()) for turn in messages)
        if read < TOKENS_A_WORD * words:
            raise PromptTooLongError(
                f"{self.url}: give the server a larger context, or a chat template that shows "
                f"every message: it read {read} tokens of a conversation of {words} words"
            )

    async def post(
        self, path: str, fields: Mapping[str, Any], read: Callable[[Any], Read]
    ) -> Read:
        """Send a request for the model to a path below ``url``; see ``ask``."""
        body = {"model": self.model, **fields}
        attempt = 1
        while True:
            try:
                answer = await self._transport.post(path, body)
                self.count(answer)
                return self._apply_reader(answer, read)
            except TransientError as fault:
                # Faults differ in how much patience they deserve, and a greeting has less.
                if attempt >= min(fault.attempts, self.attempts):
                    raise
                await pause(attempt, fault.after)
            attempt += 1
            self.usage.retries += 1

    def _apply_reader(self, answer: Any, read: Callable[[Any], Read]) -> Read:
        try:
            return read(answer)
        except MALFORMED as fault:
            # Our own words, or else the answer, which may tell of an error.
            words = str(fault) if isinstance(fault, ValueError) else ""
            with suppress(*MALFORMED):
                if not words or answer.get("error"):
                    words = error_words(json.dumps(answer, ensure_ascii=False))
            problem = f"{self.url}: malformed answer of the server: {words[:300]}"
            raise TransientError(problem, ANSWERED) from fault

    def count(self, answer: Any) -> None:
        """Count an answer's tokens, and note the model name that it gives."""
        self.usage.count(answer)
        name = answer.get("model") if isinstance(answer, dict) else None
        # A router may answer with another name each time.
        if isinstance(name, str) and len(self.answered) < MOST_NAMES:
            self.answered.add(replace_surrogates(name[:200]))

    async def _ids(self, labels: tuple[str, ...]) -> Mapping[str, int] | None:
        """Each label's token id, requested once; None if the server has no ``/tokenize``."""
        async with self._lock:  # hundreds of prompts want them at the same moment
            if labels not in self._label_ids:
                ids: dict[str, int] = {}
                for label in labels:
                    number = await self._token(label)
                    if number is not None:
                        ids[label] = number
                self._label_ids[labels] = ids if len(ids) == len(labels) else None
        return self._label_ids[labels]

    async def _token(self, label: str) -> int | None:
        def read(response: Any) -> list[int]:
            # llama.cpp has another field for the text, and gives no token.
            return [int(token) for token in response.get("tokens") or ()]

        body = {"prompt": label, "add_special_tokens": False}
        try:
            tokens = await self.post(TOKENIZE, body, read)
        except TransientError:
            raise  # the server may have the path, so it counts as a failed request
        except EndpointError:
            return None
        if len(tokens) > 1:
            raise LabelError(
                f"{self.url}: the label {label!r} is {len(tokens)} tokens of {self.model}, so its "
                "probability cannot be read from one"
            )
        return tokens[0] if tokens else None
