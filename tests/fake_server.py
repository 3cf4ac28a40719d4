"""A local OpenAI-compatible server with scripted answers, which records what it was asked."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web

Body = dict[str, Any]
Answer = Callable[[Body], Sequence[str | Body]]
Tokens = Callable[[Body], dict[str, float]]


def scripted(body: Body) -> list[str]:
    """Judges by the word "cannot"; as a candidate, refuses what is "forbidden"."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        refused = "cannot" in text
        category = "direct_refusal" if refused else "none"
        verdict = "refusal" if refused else "compliance"
        rationale = f"it {'declines' if refused else 'answers'} <b>&"
        return [json.dumps({"rationale": rationale, "category": category, "verdict": verdict})]
    refused = "forbidden" in text
    said = "I cannot do that" if refused else "Here you are"
    return [f"{said}, {text[:20]} #{body['seed'] + i}" for i in range(body["n"])]


class FakeServer:
    """Use as a context manager.

    Args:
        answer: the answers to a request's body, as many as it asks for; each a text, or a message
            with ``content`` and ``reasoning``.
        api_key: refuse requests without it.
        faults: answers to the first requests, one each: an HTTP status, or raw text as a 200.
        context: characters of a conversation above which it is too long; None for no limit.
        no_schemas: HTTP status by which it refuses a response_format; None where it takes one.
        tokens: probability of each token as the first of the answer to a request's body that asks
            for log-probabilities of others than the chosen ones; a server without says nothing.
        tokenizer: whether it has /tokenize and takes logprob_token_ids, as vLLM does; a token is
            a character then, known by its code point.
    """

    def __init__(
        self,
        answer: Answer = scripted,
        *,
        models: Sequence[str] = ("fake",),
        api_key: str | None = None,
        faults: Sequence[int | str] = (),
        finish_reason: str = "stop",
        no_schemas: int | None = None,
        context: int | None = None,
        delay: float = 0.0,
        port: int = 0,
        tokens: Tokens | None = None,
        tokenizer: bool = True,
    ) -> None:
        self.tokenized: list[str] = []
        self.requests: list[Body] = []
        self.answer = answer
        self._models = models
        self._api_key = api_key
        self._faults = list(faults)
        self._finish_reason = finish_reason
        self._no_schemas = no_schemas
        self._context = context
        self.delay = delay
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self.port = port

    @property
    def url(self) -> str:
        """Base URL, ending in /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self, judge: bool) -> list[Body]:
        """The recorded requests to the judge, or those to the candidate."""
        marks = {"response_format", "top_logprobs"}
        return [body for body in self.requests if bool(marks & body.keys()) is judge]

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/v1/chat/completions", self._chat)
        if self._tokenizer:
            app.router.add_post("/tokenize", self._tokenize)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        """Close everything, requests included that nobody waits for any more."""
        assert self._runner is not None
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close in the loop's next rounds

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    def _refused(self, request: web.Request) -> bool:
        wanted = f"Bearer {self._api_key}"
        return self._api_key is not None and request.headers.get("Authorization") != wanted

    async def _list_models(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        return web.json_response({"data": [{"id": name} for name in self._models]})

    async def _chat(self, request: web.Request) -> web.Response:
        if self._refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        body: Body = await request.json()
        self.requests.append(body)
        if self._faults:
            fault = self._faults.pop(0)
            if isinstance(fault, str):
                return web.Response(text=fault)
            return web.json_response({"error": {"message": f"fault {fault}"}}, status=fault)
        if self._context and sum(len(turn["content"]) for turn in body["messages"]) > self._context:
            error = {"message": f"maximum context length is {self._context}"}
            return web.json_response({"error": error}, status=400)
        if self._no_schemas and "response_format" in body:
            said = {"error": {"message": "response_format: unknown field"}}
            return web.json_response(said, status=self._no_schemas)
        await asyncio.sleep(self.delay)
        if "top_logprobs" in body:
            return web.json_response({"choices": [self._first_token(body)]})
        choices = [self._choice(i, text) for i, text in enumerate(self.answer(body))]
        return web.json_response({"choices": choices})

    async def _tokenize(self, request: web.Request) -> web.Response:
        text = (await request.json())["prompt"]
        self.tokenized.append(text)
        return web.json_response({"tokens": [ord(character) for character in text]})

    def _first_token(self, body: Body) -> Body:
        """One token, and the log-probabilities of those that the request wants to know of."""
        choice = self._choice(0, "1") | {"finish_reason": "length"}
        if self._tokens is None:
            return choice | {"logprobs": None}
        given = self._tokens(body)
        shown = sorted(given, key=given.__getitem__, reverse=True)
        if self._tokenizer and "logprob_token_ids" in body:
            wanted = [chr(id) for id in body["logprob_token_ids"]]
            shown = [*shown[:1], *(token for token in wanted if token != shown[0])]
            names = [f"token_id:{ord(token[0])}" for token in shown]
        else:
            shown = shown[: body["top_logprobs"]]
            names = shown
        listed = [
            {"token": name, "logprob": max(math.log(given[token]), -9999.0)}
            if given.get(token)
            else {"token": name, "logprob": -9999.0}
            for name, token in zip(names, shown, strict=True)
        ]
        return choice | {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}

    def _choice(self, index: int, said: str | Body) -> Body:
        message = {"content": said} if isinstance(said, str) else said
        text = " ".join(filter(None, (message.get("reasoning"), message["content"])))
        tokens = [{"token": word, "logprob": -0.5 * (index + 1)} for word in text.split()]
        return {
            "index": index,
            "finish_reason": self._finish_reason,
            "message": {"role": "assistant", **message},
            "logprobs": {"content": tokens},
        }
