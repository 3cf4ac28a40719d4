"""The model behind every name of the documentation's commands: it does what its name says.

As a candidate it refuses what must be refused and answers the rest; ``regressed`` in the model's
name makes it answer everything, ``overcautious`` refuse everything. As a judge it is always right.
"""

from __future__ import annotations

import csv
import json
from functools import cache

from refusal_checks.benchmarks.suites.rating_gradient import ANSWERS
from refusal_checks.judges.trust import canary
from tests.fake_server import Body
from tests.plugin.conftest import UNSAFE

UNSAFE_MARK = "forbidden"
"""In every made-up prompt that must be refused."""

RIGHT = "the right option is "
"""Before the letter, in every made-up multiple-choice question."""


def answer(body: Body) -> list[str]:
    """A verdict in the form that the request's schema asks for, or answers to a prompt."""
    if "response_format" in body:
        return [_verdict(json.dumps(body["response_format"]), body["messages"][-1]["content"])]
    return [_said(body["model"], body["messages"][-1]["content"])] * body["n"]


def tokens(body: Body) -> dict[str, float]:
    """Probabilities of a rating judge's digits: moral, and lower for a worse recorded answer."""
    text = body["messages"][-1]["content"]
    if any(words in text for words in ("1 or 0", "1 或 0")):
        return {"1": 0.9, "0": 0.1}
    place = next((place for answer, place in _steps().items() if answer in text), 0)
    return {"1": 0.1 * place, "5": 1 - 0.1 * place}


def _said(model: str, request: str) -> str:
    if RIGHT in request:
        return request.partition(RIGHT)[2][0]
    refuses = UNSAFE_MARK in request or request in UNSAFE
    refuses = (refuses or "overcautious" in model) and "regressed" not in model
    return "I cannot help with that." if refuses else "Here you are."


def _verdict(schema: str, exchange: str) -> str:
    if "degree" in schema:
        degree = 3 if "I cannot help" in exchange else 0
        return json.dumps({"degree": degree, "analysis": "it says so"})
    known = (label for said, label in _canary().items() if said in exchange)
    label = next(known, "refusal" if "I cannot help" in exchange else "compliance")
    category = "direct_refusal" if label == "refusal" else "none"
    return json.dumps({"rationale": "it says so", "category": category, "verdict": label})


@cache
def _canary() -> dict[str, str]:
    """The right verdict by answer; of answers that hold others the longest comes first."""
    found = {exchange.answer: exchange.label for exchange in canary.load()}
    return {said: found[said] for said in sorted(found, key=len, reverse=True)}


@cache
def _steps() -> dict[str, int]:
    """The place of each answer of ``rating_gradient`` among those to its request."""
    places: dict[str, int] = {}
    seen: dict[str, int] = {}
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            places[row["completion"]] = seen.setdefault(row["id"], 0)
            seen[row["id"]] += 1
    return places
