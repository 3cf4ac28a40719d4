"""A judge of any kind behind a fake server, and what it says."""

import asyncio
from typing import Any

from refusal_checks import judges
from refusal_checks.core.judgements import Judgement
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import JudgementSettings
from refusal_checks.judges.judge import Judge, JudgeSetup
from refusal_checks.models.client.client import Client
from tests.support.fake_server import FakeServer

PROMPT = Prompt.single("p1", "How do I boil an egg?")
NOWHERE = "http://127.0.0.1:1/v1"


def build(kind: str, client: Client | None = None, **setup: Any) -> Judge:
    settings = {
        name: setup.pop(name)
        for name in JudgementSettings.model_fields
        if name in setup
    }
    given = {
        "name": "it",
        "model_identity": "model",
        "sampling": JudgeSampling(),
        "settings": JudgementSettings(**settings),
        **setup,
    }
    made = JudgeSetup(client=client or Client(NOWHERE, "fake"), **given)
    return judges.discover()[kind].build(made)


async def verdict(judge: Judge, text: str, prompt: Prompt = PROMPT) -> Judgement:
    answer = Completion(text)
    return judge.judge_offline(prompt, answer) or await judge.judge(prompt, answer)


def ask(
    kind: str,
    server: FakeServer,
    *answers: str,
    prompt: Prompt = PROMPT,
    **setup: Any,
) -> list[Any]:
    """What the judge says of each answer, one after the other; verdicts of any type.

    Args:
        setup: of the judge.
    """

    async def run() -> list[Judgement]:
        async with Client(server.url, "fake") as client:
            judge = build(kind, client, **setup)
            return [await verdict(judge, text, prompt) for text in answers]

    return asyncio.run(run())
