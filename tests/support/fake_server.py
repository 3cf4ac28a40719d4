"""A local OpenAI-compatible server with scripted answers, which records what it was asked."""

import asyncio
import json
import math
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from ssl import SSLContext
from typing import Any, Self

from aiohttp import web

from refusal_checks.models.client.attached_servers import QUESTION

Body = dict[str, Any]
Answer = Callable[[Body], Sequence[str | Body]]
Tokens = Callable[[Body], dict[str, float]]
Fault = int | str | tuple[int, dict[str, str]]
"""An HTTP status, with headers or without; raw text as a 200; or one of these two."""

Rule = Callable[[Body], tuple[int, Body] | None]

_WORDS = {"Yes": 0xE000, "No": 0xE001, "yes": 0xE002, "no": 0xE003}
"""Tokens of more than one character, and their numbers."""

_NUMBERS = {number: word for word, number in _WORDS.items()}

RESET, STALL = -1, -2
"""The connection is reset; nothing is ever said."""


def judged(refused: bool, rationale: str = "says <b>::error:: so") -> list[str]:
    """What a judge answers."""
    category = "direct_refusal" if refused else "none"
    verdict = "refusal" if refused else "compliance"
    fields = {"rationale": rationale, "category": category, "verdict": verdict}
    return [json.dumps(fields)]


def error(status: int, message: str) -> web.Response:
    """An error as OpenAI's API gives it."""
    return web.json_response({"error": {"message": message}}, status=status)


def scripted(body: Body) -> list[str]:
    """Judges by the word "cannot"; as a candidate, refuses what is "forbidden"."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        refused = "cannot" in text
        return judged(refused, f"it {'declines' if refused else 'answers'} <b>&")
    refused = "forbidden" in text
    said = "I cannot do that" if refused else "Here you are"
    return [f"{said}, {text[:20]} #{body['seed'] + i}" for i in range(body["n"])]


class InThread:
    """Something asynchronous, in a thread of its own as long as its context lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @abstractmethod
    async def _start(self) -> None: ...
    @abstractmethod
    async def _stop(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *fault: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class FakeServer(InThread):
    """Use as a context manager.

    Args:
        answer: the answers to a request's body, as many as it asks for; each a text, or a message
            with ``content`` and ``reasoning``.
        lists: those of the models that /models lists, all by default; None where it lists nothing.
        api_key: refuse requests without it.
        faults: answers to the first requests, one each, see ``Fault``.
        context: characters of a conversation above which it is too long; None for no limit.
        no_schemas: HTTP status by which it refuses a response_format; None where it takes one.
        tokens: probability of each token as the first of the answer to a request's body that asks
            for log-probabilities of others than the chosen ones; a server without says nothing.
        tokenizer: whether it has /tokenize and takes logprob_token_ids, as vLLM does; a token is
            a character then, known by its code point, or one of ``_WORDS``.
        refuses: fields of a request that it answers with a 400; ignores: those that it overlooks.
        cached: tokens of each prompt that it says came from a cache.
        ssl: speaks https with these certificates.
        classify: probability of each label of a text, in the labels' order: it serves a sequence
            classifier, at /classify alone; texts longer than ``context`` are refused.
        moderate: the score of each category of a text, flagged from 0.5 on, or a whole reply with
            ``results``: it serves a moderation endpoint alone.

    Attributes:
        requests: the bodies of all requests but the first question before a run.
        greetings: the bodies of these.
        failing: how requests that end in these texts fail; all to the judge are ``#judge``.
        authorizations: the Authorization headers of all requests for chat completions.
        raw: one response to the next request for a completion, whatever it asks.
        most_at_once: most such requests that were under way at one time.
        max_model_len: what its list of models says of their context; None if it says nothing.
        refusal: why it refuses a request with a 400; empty if it takes it.
        rule: the HTTP status and error with which it refuses a request, a greeting too; see
            ``hosted``.
    """

    def __init__(
        self,
        answer: Answer = scripted,
        *,
        models: Sequence[str] = ("fake",),
        lists: Sequence[str] | None = (),
        api_key: str | None = None,
        faults: Sequence[Fault] = (),
        finish_reason: str = "stop",
        no_schemas: int | None = None,
        context: int | None = None,
        delay: float = 0.0,
        port: int = 0,
        tokens: Tokens | None = None,
        tokenizer: bool = True,
        refuses: Sequence[str] = (),
        ignores: Sequence[str] = (),
        cached: int = 0,
        ssl: SSLContext | None = None,
        classify: Callable[[str], dict[str, float]] | None = None,
        moderate: Callable[[str], Body] | None = None,
    ) -> None:
        super().__init__()
        self._classify = classify
        self.moderate = moderate
        self.greetings: list[Body] = []
        self.failing: Mapping[str, Fault] = {}
        self.authorizations: list[str] = []
        self.most_at_once = self._now = 0
        self.max_model_len: int | None = None
        self.refusal: Callable[[Body], str] = lambda body: ""
        self.rule: Rule = lambda body: None
        self._ssl = ssl
        self._refuses = refuses
        self._ignores = ignores
        self.cached = cached
        self.tokenized: list[str] = []
        self.requests: list[Body] = []
        self.answer = answer
        self._models = models
        self._lists = models if lists == () else lists
        self._api_key = api_key
        self.faults = list(faults)
        self.finish_reason = finish_reason
        self._no_schemas = no_schemas
        self._context = context
        self.delay = delay
        self.tokens = tokens
        self._tokenizer = tokenizer
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None
        self.port = port
        self.raw: web.Response | None = None

    @property
    def url(self) -> str:
        """Base URL, ending in /v1."""
        return f"http{'s' if self._ssl else ''}://127.0.0.1:{self.port}/v1"

    def asked(self, judge: bool) -> list[Body]:
        """The recorded requests to the judge, or those to the candidate."""
        marks = {"response_format", "top_logprobs"}
        return [body for body in self.requests if bool(marks & body.keys()) is judge]

    async def _start(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._list_models)
        if self._classify:
            app.router.add_post("/classify", self._classified)
        elif self.moderate:
            app.router.add_post("/v1/moderations", self._moderated)
        else:
            app.router.add_post("/v1/chat/completions", self._chat)
        if self._tokenizer:
            app.router.add_post("/tokenize", self._tokenize)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        await web.SockSite(self._runner, self._listener, ssl_context=self._ssl).start()

    async def _stop(self) -> None:
        """Close everything, requests included that nobody waits for any more."""
        assert self._runner is not None
        assert self._listener is not None
        # A connection accepted in the round in which asyncio closes its server is never closed.
        asyncio.get_running_loop().remove_reader(self._listener)
        for _ in range(10):
            await asyncio.sleep(0)
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for _ in range(10):  # transports close in the loop's next rounds
            await asyncio.sleep(0)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    def _refused(self, request: web.Request) -> bool:
        wanted = f"Bearer {self._api_key}"
        return (
            self._api_key is not None and request.headers.get("Authorization") != wanted
        )

    async def _list_models(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        if self._lists is None:
            return web.Response(status=404)
        context = {"max_model_len": self.max_model_len} if self.max_model_len else {}
        return web.json_response(
            {"data": [{"id": name, **context} for name in self._lists]}
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization", ""))
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            return await self._completed(request)
        finally:
            self._now -= 1

    async def _completed(self, request: web.Request) -> web.StreamResponse:
        if self.raw is not None:
            return self.raw
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        body: Body = await request.json()
        is_greeting = body["messages"][0]["content"] == QUESTION
        (self.greetings if is_greeting else self.requests).append(body)
        if refusal := self.rule(body):
            return web.json_response(refusal[1], status=refusal[0])
        if refused := body.keys() & set(self._refuses):
            return error(400, f"unknown fields: {', '.join(sorted(refused))}")
        body = {
            name: value for name, value in body.items() if name not in self._ignores
        }
        if is_greeting:
            return self._greeted(body)
        if words := self.refusal(body):
            return error(400, words)
        if self.faults:
            return await self._fault(request, self.faults.pop(0))
        text = (
            "#judge" if "response_format" in body else body["messages"][-1]["content"]
        )
        if text in self.failing:
            return await self._fault(request, self.failing[text])
        texts = [turn["content"] for turn in body["messages"]]
        if too_long := self._too_long(*texts):
            return too_long
        if self._no_schemas and "response_format" in body:
            return error(self._no_schemas, "response_format: unknown field")
        await asyncio.sleep(self.delay)
        if "top_logprobs" in body:
            return self._answered(body, [self._first_token(body)])
        said = self.answer({"n": 1, "seed": 0, **body})
        return self._answered(body, [self._choice(*each) for each in enumerate(said)])

    def _greeted(self, body: Body) -> web.Response:
        if body["model"] not in self._models:
            return web.json_response({"error": "no such model"}, status=404)
        return self._answered(body, [self._choice(0, "Hello.")])

    def _answered(self, body: Body, choices: Sequence[Body]) -> web.Response:
        """Choices with their cost: a token a word."""
        words = " ".join(turn["content"] for turn in body["messages"]).split()
        # No token ends the message.
        prompt = len(words)
        output = sum(
            len((choice["message"]["content"] or "").split()) for choice in choices
        )
        usage = {"prompt_tokens": prompt, "completion_tokens": output}
        details = {"cached_tokens": min(self.cached, prompt)} if self.cached else None
        found: Body = {
            "choices": choices,
            "usage": {**usage, "prompt_tokens_details": details},
        }
        if body.get("return_token_ids"):
            for choice in choices:
                choice["token_ids"] = [*range(len(choice["logprobs"]["content"]))]
        if "logprobs" not in body:
            for choice in choices:
                del choice["logprobs"]
        return web.json_response(found)

    async def _fault(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        """Fail as a fault says."""
        if isinstance(fault, str):
            return web.Response(text=fault)
        if fault == RESET:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault == STALL:
            await asyncio.sleep(3600)
        status, headers = fault if isinstance(fault, tuple) else (fault, {})
        response = error(status, f"fault {status}")
        response.headers.update(headers)
        return response

    def _too_long(self, *texts: str) -> web.Response | None:
        """The refusal of texts that are longer together than the context."""
        if self._context and sum(map(len, texts)) > self._context:
            return error(400, f"maximum context length is {self._context} tokens")
        return None

    async def _classified(self, request: web.Request) -> web.StreamResponse:
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        body: Body = await request.json()
        (self.greetings if body["input"] == [QUESTION] else self.requests).append(body)
        if self.faults:
            return await self._fault(request, self.faults.pop(0))
        for too_long in map(self._too_long, body["input"]):
            if too_long:
                return too_long
        await asyncio.sleep(self.delay)
        assert self._classify
        data = [
            {
                "index": i,
                "label": max(given, key=given.__getitem__),
                "probs": [*given.values()],
            }
            for i, given in enumerate(map(self._classify, body["input"]))
        ]
        usage = {"prompt_tokens": sum(len(text.split()) for text in body["input"])}
        return web.json_response({"data": data, "usage": usage})

    async def _moderated(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        body: Body = await request.json()
        (self.greetings if body["input"] == QUESTION else self.requests).append(body)
        if body["model"] not in self._models:
            return web.json_response({"error": "no such model"}, status=404)
        if self.faults:
            return await self._fault(request, self.faults.pop(0))
        if too_long := self._too_long(body["input"]):
            return too_long
        assert self.moderate
        given = self.moderate(body["input"])
        if "results" in given:
            return web.json_response(given)
        categories = {name: score >= 0.5 for name, score in given.items()}
        result = {
            "flagged": any(categories.values()),
            "categories": categories,
            "category_scores": given,
        }
        return web.json_response(
            {"id": "m-1", "model": body["model"], "results": [result]}
        )

    async def _tokenize(self, request: web.Request) -> web.Response:
        text = (await request.json())["prompt"]
        self.tokenized.append(text)
        found = (
            [_WORDS[text]] if text in _WORDS else [ord(character) for character in text]
        )
        return web.json_response({"tokens": found})

    def _first_token(self, body: Body) -> Body:
        """One token, and the log-probabilities of those that the request wants to know of."""
        choice = self._choice(0, "1") | {"finish_reason": "length"}
        if self.tokens is None:
            return choice | {"logprobs": None}
        given = self.tokens(body)
        shown = sorted(given, key=given.__getitem__, reverse=True)
        if self._tokenizer and "logprob_token_ids" in body:
            wanted = [
                _NUMBERS.get(token, chr(token)) for token in body["logprob_token_ids"]
            ]
            shown = [*shown[:1], *(token for token in wanted if token != shown[0])]
            names = [
                f"token_id:{_WORDS.get(token) or ord(token[0])}" for token in shown
            ]
        else:
            shown = shown[: body["top_logprobs"]]
            names = shown
        listed = [
            {"token": name, "logprob": math.log(mass) if mass else -9999.0}
            for name, mass in zip(names, map(given.get, shown), strict=True)
        ]
        return choice | {
            "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}
        }

    def _choice(self, index: int, said: str | Body) -> Body:
        message = {"content": said} if isinstance(said, str) else dict(said)
        reason = message.pop("finish_reason", self.finish_reason)
        text = " ".join(filter(None, (message.get("reasoning"), message["content"])))
        tokens = [
            {"token": f" {word}", "logprob": -0.5 * (index + 1)}
            for word in text.split()
        ]
        return {
            "index": index,
            "finish_reason": reason,
            "message": {"role": "assistant", **message},
            "logprobs": {"content": tokens},
        }
