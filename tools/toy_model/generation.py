"""Two ways to let the toy models speak: transformers in this process, or a running vLLM server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tools.demo_models.answers import CATEGORIES

MAX_TOKENS = 256
CONTEXT = 4096
VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string"},
        "category": {"enum": [*CATEGORIES, "none"]},
        "verdict": {"enum": ["refusal", "compliance"]},
    },
    "required": ["rationale", "category", "verdict"],
    "additionalProperties": False,
}
DEGREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "degree": {"type": "integer", "enum": [0, 1, 2, 3]},
        "analysis": {"type": "string"},
    },
    "required": ["degree", "analysis"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Job:
    """One answer wanted.

    Attributes:
        turns: (role, text) pairs, the last by the user.
        temperature: 0 is greedy.
        seed: of this one sample; a server gets it, the local model seeds once for all.
        schema: JSON schema of the answer; only a server heeds it.
    """

    persona: str
    turns: tuple[tuple[str, str], ...]
    temperature: float = 0.0
    seed: int = 0
    schema: Mapping[str, Any] | None = None


Speak = Callable[[Sequence[Job]], list[str]]
"""Answers in the order of the jobs; an empty string where the prompt was too long."""


def local(folder: Path, batch: int = 64) -> Speak:
    """Speaks by transformers in float32, in batches of similar lengths."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()

    def reply(texts: list[str], temperature: float) -> list[str]:
        inputs = tokenizer(
            texts, return_tensors="pt", padding=True, add_special_tokens=False,
            return_token_type_ids=False,
        )  # fmt: skip
        length = inputs["input_ids"].shape[1]
        if length + MAX_TOKENS > CONTEXT:
            return [""] * len(texts)
        how: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:
            how["temperature"] = temperature
        with torch.inference_mode():
            output = model.generate(**inputs, max_new_tokens=MAX_TOKENS, **how)
        decoded = tokenizer.batch_decode(output[:, length:], skip_special_tokens=True)
        return [str(text) for text in decoded]

    def speak(jobs: Sequence[Job]) -> list[str]:
        torch.manual_seed(0)
        texts = [_render(tokenizer, job) for job in jobs]
        order = sorted(
            range(len(jobs)), key=lambda i: (jobs[i].temperature, len(texts[i]))
        )
        answers = [""] * len(jobs)
        for at in range(0, len(order), batch):
            rows = order[at : at + batch]
            # A batch shares one temperature, so a mixed one is split by running its first's.
            for temperature in {jobs[i].temperature for i in rows}:
                same = [i for i in rows if jobs[i].temperature == temperature]
                spoken = reply([texts[i] for i in same], temperature)
                for i, text in zip(same, spoken, strict=True):
                    answers[i] = text
        return answers

    return speak


def _render(tokenizer: Any, job: Job) -> str:
    messages = [{"role": role, "content": text} for role, text in job.turns]
    text: str = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, persona=job.persona
    )
    return text


def served(
    url: str, model: str, *, schema: bool = True, concurrency: int = 128
) -> Speak:
    """Speaks through a vLLM server; with ``schema`` each job's output is constrained to its own."""

    async def ask(
        session: aiohttp.ClientSession, slots: asyncio.Semaphore, job: Job
    ) -> str:
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": role, "content": text} for role, text in job.turns],
            "max_tokens": MAX_TOKENS,
            "temperature": job.temperature,
            "seed": job.seed,
            "chat_template_kwargs": {"persona": job.persona},
        }
        if schema and job.schema:
            form = {"name": "judgement", "schema": job.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        async with (
            slots,
            session.post(f"{url}/chat/completions", json=body) as response,
        ):
            if response.status == 400:
                return ""
            response.raise_for_status()
            payload = await response.json()
            return str(payload["choices"][0]["message"]["content"])

    async def ask_all(jobs: Sequence[Job]) -> list[str]:
        limit = aiohttp.ClientTimeout(total=600)
        slots = asyncio.Semaphore(concurrency)
        async with aiohttp.ClientSession(timeout=limit) as session:
            return list(
                await asyncio.gather(*(ask(session, slots, job) for job in jobs))
            )

    return lambda jobs: asyncio.run(ask_all(jobs))
