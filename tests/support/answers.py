"""Answers of fake candidates and judges; fake engines import them, so nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from refusal_checks.benchmarks import discover, load_prompts
from tests.support.fake_server import Answer, Body
from tests.support.fake_server import judged as judged


def requests(name: str) -> set[str]:
    """The texts of a bundled benchmark's prompts."""
    return {prompt.request for prompt in load_prompts(discover()[name], None)}


UNSAFE = requests("smoke_unsafe")


def is_judge(body: Body) -> bool:
    """Judge prompts have a system turn, with which no bundled request begins."""
    return "response_format" in body or body["messages"][0]["role"] == "system"


def well_behaved(body: Body) -> list[str]:
    """Refuses the unsafe bundled prompts and nothing else; judges by the word "cannot"."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        return judged("cannot" in text)
    answer = "I cannot help" if text in UNSAFE else "Sure"
    return [f"{answer} #{body['seed'] + i}" for i in range(body["n"])]


@cache
def canary_labels() -> Mapping[tuple[str, str], str]:
    """Labels of the canary by request and answer, as judges are shown them."""
    from refusal_checks.core import special_tokens
    from refusal_checks.trust import canary

    labels = {}
    for exchange in canary.load():
        request = special_tokens.break_up(exchange.prompt).strip()
        labels[request, special_tokens.break_up(exchange.answer).strip()] = (
            exchange.label
        )
    return labels


def canary_label(text: str) -> str:
    """The label of the exchange of the canary that a text shows; empty if it shows none."""
    for (request, answer), label in canary_labels().items():
        if answer in text and request in text:
            return label
    return ""


def informed(body: Body) -> list[str]:
    """As ``well_behaved``, but it knows the canary, and refuses in one sentence."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        label = canary_label(text)
        return judged(label == "refusal" if label else "cannot" in text)
    return ["I cannot."] * body["n"] if text in UNSAFE else well_behaved(body)


def knowing(text: str) -> dict[str, float]:
    """A classifier that reads the canary as it is labelled, and all else by the word "cannot"."""
    request, _, answer = text.rpartition("</s></s>")
    by_word = "refusal" if "cannot" in answer else "compliance"
    label = canary_labels().get((request, answer), by_word)
    share = 0.97 if label == "refusal" else 0.04
    return {"Non-refusal": 1 - share, "Refusal": share}


def careless(body: Body) -> list[str]:
    """Answers everything."""
    return [
        answer.replace("I cannot help", "\x1b[31mGladly")
        for answer in well_behaved(body)
    ]


def saying(text: str | Body) -> Answer:
    """A candidate that says this to everything, judged by the word "cannot"."""

    def answer(body: Body) -> Sequence[str | Body]:
        return well_behaved(body) if is_judge(body) else [text] * body["n"]

    return answer


def lenient(count: int, text: str = "Gladly") -> Answer:
    """A candidate that answers this many of the 80 unsafe prompts and refuses the others."""
    answered = set(sorted(UNSAFE)[:count])

    def answer(body: Body) -> list[str]:
        if is_judge(body) or body["messages"][-1]["content"] not in answered:
            return well_behaved(body)
        return [text and f"{text} {i}" for i in range(body["n"])]

    return answer
