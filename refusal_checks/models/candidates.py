"""Candidates: the models under test."""

import asyncio
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.judgements import FILTERED, Invalid, Reason
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import Sampling
from refusal_checks.io.store import Store, content_key
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.label_probabilities import (
    LabelError,
    LabelProbabilities,
)
from refusal_checks.models.client.server_errors import (
    FilteredError,
    PromptTooLongError,
)

Answer = Completion | Invalid


class Candidate(Protocol):
    """A model under test, or its recorded answers.

    Attributes:
        name: as the user named it.
        max_tokens: most tokens of an answer; None if unknown.
    """

    name: str
    max_tokens: int | None

    def keys(self, prompt: Prompt) -> Sequence[str]:
        """One content key per answer."""

    def stored_answers(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        """Answers that exist already, by content key."""

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        """The answers from number first to first + count - 1, in order."""


class ServedCandidate:
    """A model behind a server; one request asks for all K answers to a prompt.

    Args:
        model_identity: what answers depend on besides prompt and sampling.
        is_attached: True if this package did not start the model's server.
        weighs: True if log-probabilities weigh several answers to a prompt; they are asked for with
            the answers.

    Attributes:
        stored_model: key under which all that is stored of the model can be set aside.
        generation: generation of the model's stored answers, see ``Store.begin_generation``.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        sampling: Sampling,
        model_identity: str,
        *,
        is_attached: bool = False,
        weighs: bool = False,
    ) -> None:
        self.name = name
        self.stored_model = model_identity
        self.is_attached = is_attached
        self.generation = ""
        self._stems: dict[tuple[str, tuple[Message, ...]], str] = {}
        self.max_tokens: int | None = sampling.max_tokens
        self._client = client
        self._sampling = sampling
        self._params = RequestParams.from_sampling(sampling)
        # A single answer is not weighted, so it needs no log-probability.
        self._weighs = weighs and sampling.samples > 1
        # Without samples, so that their number can grow.
        settings = sampling.model_dump(exclude={"samples"})
        settings["weighs"] = self._weighs
        self._settings = settings
        # vLLM refuses several greedy answers in one request.
        self._takes_several = sampling.temperature > 0

    def stored_answers(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        return store.completions(key for prompt in prompts for key in self.keys(prompt))

    def keys(self, prompt: Prompt) -> Sequence[str]:
        # K can grow. Answers that are weighed are asked anew, since the others have no
        # log-probabilities. What a server leaves out of a request is not part of a key: the URL and
        # the model's name stand for everything that it does.
        place = self.generation, prompt.messages
        stem = self._stems.get(place)  # a run asks for it six times
        if stem is None:
            stem = content_key(self._stored_as, prompt.turns, self._settings)
            self._stems[place] = stem
        return [f"{stem}-{sample}" for sample in range(self._sampling.samples)]

    @property
    def _stored_as(self) -> object:
        if not self.generation:
            return self.stored_model
        return [self.stored_model, self.generation]

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        answers: Sequence[Answer] = ()
        if count == 1 or self._takes_several:
            answers = await self._answer(prompt, first, count)
            if len(answers) == count:
                return answers
            self._takes_several = False  # the server gives one, whatever is asked
        rest = range(first + len(answers), first + count)
        requests = [self._answer(prompt, index, 1) for index in rest]
        others = await asyncio.gather(*requests)
        return [*answers, *(answer for (answer,) in others)]

    async def _answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        params = replace(
            self._params,
            n=count,
            # Prompts get different seeds; otherwise similar prompts would be answered from the same
            # random numbers, and their answers would not be independent. Servers give answer i of a
            # request the request's seed plus i, so an answer does not depend on how many are asked
            # for.
            seed=answer_seed(self._sampling.seed, prompt, first),
            logprobs=self._weighs,
            # Of several answers, a server counts only the sum of their tokens.
            return_token_ids=count > 1 and not self._weighs,
        )
        try:
            return await self._client.chat(self.messages(prompt), params)
        except FilteredError:
            return [Completion("", FILTERED)] * count
        except EndpointError as fault:
            return [_make_invalid(fault)] * count

    def messages(self, prompt: Prompt) -> tuple[Message, ...]:
        """The messages to send: first the run's system prompt, merged with the prompt's own."""
        system = self._sampling.system_prompt
        if not system:
            return prompt.messages
        first, *others = prompt.messages
        if first.role == "system":
            return Message("system", f"{system}\n\n{first.content}"), *others
        return Message("system", system), *prompt.messages


class OptionScorer(ServedCandidate):
    """A served model that chooses options by probability, and answers other prompts in text.

    A multiple-choice question has one answer, whatever the sampling settings: the letter that is
    the most probable first token, then a line with the probabilities of all letters.
    """

    def keys(self, prompt: Prompt) -> Sequence[str]:
        if not prompt.options:
            return super().keys(prompt)
        turns = replace(prompt, messages=self.messages(prompt)).turns
        return [content_key(self._stored_as, turns, "options", list(prompt.options))]

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        if not prompt.options:
            return await super().answer(prompt, first, count)
        messages = self.messages(prompt)
        try:
            labels = await self._client.label_probabilities(
                messages, list(prompt.options)
            )
        except LabelError as fault:
            use = "use --set multiple_choice.scoring=text in place of logprob"
            raise ModelError(f"{use}: {fault}") from None
        except EndpointError as fault:
            return [_make_invalid(fault)]
        return [_choose_letter(labels)]


def _choose_letter(labels: LabelProbabilities) -> Answer:
    """The most probable letter, then a line with the probabilities of all."""
    probabilities = labels.probabilities
    shown = ", ".join(f"{label} {value:.4f}" for label, value in probabilities.items())
    detail = f"{shown}; outside {labels.outside:.4f}"
    best = max(probabilities.values())
    letters = [label for label, value in probabilities.items() if value == best]
    if len(letters) > 1:
        why = f"several letters are equally probable: {detail}"
        return Invalid(Reason.NO_OPTION, why)
    return Completion(f"{letters[0]}\n{detail}", "stop", 1, math.log(best))


def _make_invalid(fault: EndpointError) -> Invalid:
    reason = Reason.ENGINE_ERROR
    if isinstance(fault, PromptTooLongError):
        reason = Reason.PROMPT_TOO_LONG
    return Invalid(reason, str(fault))


def answer_seed(seed: int, prompt: Prompt, sample: int) -> int:
    """The seed of one answer: the prompt's own seed plus the sample's index."""
    text = json.dumps([seed, prompt.turns])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) % 2**30 + sample
