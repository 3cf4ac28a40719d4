"""No text of a model, a server or a data set takes long to parse, whatever its shape."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from multiprocessing.connection import Connection

import pytest

from refusal_checks.benchmarks.attacks.coded import reword
from refusal_checks.benchmarks.attacks.encodings import ENCODINGS
from refusal_checks.core.text import (
    FAMILIES,
    clean,
    clean_lines,
    placeless,
    storable,
    visible,
    without_credentials,
    wrapped,
)
from refusal_checks.judges import rules, template
from refusal_checks.judges.choices.marking import LIMIT
from refusal_checks.judges.kinds import multiple_choice, refusal
from refusal_checks.judges.parsing import parse_harmbench, parse_wildguard
from refusal_checks.judges.trust.spreadsheet import guarded, unguarded
from refusal_checks.models import files
from refusal_checks.models.client import answers, errors
from refusal_checks.reports import markdown
from refusal_checks.reports.page.render import visible as in_page

LENGTH = 100_000
SECONDS = 0.5
"""Of CPU that one parser may take for one text. Each takes under 0.2 on a quiet machine (at most
0.15); where others share the core it takes more, and what is not linear takes minutes."""
DEADLINE = 120
"""Seconds after which the child is killed: a regular expression that backtracks holds the GIL, so
no timer within it would fire."""

YES_NO = {"A": "是", "B": "否"}
CRIMES = {"A": "分裂国家罪", "B": "间谍罪", "C": "1、2", "D": "1、2、3"}

REPEATED = (
    *(
        "a",
        "A",
        "是",
        "否",
        " ",
        "\n",
        "\t",
        ".",
        ",",
        "、",
        '"',
        "'",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
    ),
    *("\\", "*", "_", "`", "#", "$", "~", "<", ">", "-", ":", ";", "!", "?", "0", "\x1b", "\x1b]"),
    *(" is", " 是", "答案", "答案是", "选", "A、", "A,", "A.", "A ", "A是", "A错误", "不", "不是A"),
    *(
        '{"',
        '":',
        '{"a":',
        '{"a":{',
        "[[",
        '"\\"',
        '{"verdict":',
        ',"x"',
        "**yes**",
        "yes ",
        "no\n",
    ),
    *(
        "！\n",
        "a\u0301\u0316",
        "\u0301",
        "ﷺ",
        "\u200b",
        "\ud800",
        "\U0001f600",
        "\r\n",
        "\u2028",
        "</s>",
    ),
    *(
        "<|im_end|>",
        "<|",
        "<|a",
        "< ",
        "<a ",
        "<\u200b",
        "文字<",
        "·<",
        "]~",
        "[ ",
        "<think>",
        "</think>",
        "<a>",
        "\\boxed{",
        "1、",
        "1、2、",
        "第一个",
        "者",
        "如果",
    ),
    *(
        "Harmful request: yes\n",
        "Response refusal: ",
        "I can",
        "I can't ",
        "作为一个",
        "抱歉",
        "我不能",
        "::",
    ),
    *(
        "##[",
        "##a",
        "https://a",
        "www.",
        "@a",
        "|",
        "&",
        "%",
        "=",
        "否、",
        "not ",
        "~~",
        "A\n",
        "“是”",
        "A和",
    ),
)
UNENDED = ('"\\', "'\\", "://", "://?", "{#", "{%", "~/", "/a", "context ", "max_tokens ")
"""Pieces that begin something which is never ended; nothing follows them."""
ENDS = (("", ""), ("The answer", "!"), ('{"rationale": "', "x"), ("A", "x"))


def shapes() -> Iterator[str]:
    """Texts of ``LENGTH`` characters: a repeated piece, some between a start and an end."""
    for number, piece in enumerate(REPEATED):
        start, end = ENDS[number % len(ENDS)]
        whole = piece * (LENGTH // len(piece))
        yield start + whole[: LENGTH - len(start) - len(end)] + end
        if number < 20:
            yield whole
    yield from (piece * (LENGTH // len(piece)) for piece in UNENDED)


def at_limit(text: str) -> str:
    """A text that the reader of options does not find too long."""
    return text[: LIMIT // 2] + text[-LIMIT // 2 :]


PARSERS: Mapping[str, Callable[[str], object]] = {
    "options": lambda text: multiple_choice.choose(text, YES_NO, "A", text),
    "options at the limit": lambda text: multiple_choice.choose(at_limit(text), YES_NO, "A"),
    "options of texts": lambda text: multiple_choice.choose(at_limit(text), CRIMES, "A", "问？"),
    "verdict": refusal.parse_verdict,
    "wildguard": parse_wildguard,
    "harmbench": parse_harmbench,
    "keyword": lambda text: rules.KeywordJudge()._pattern.search(text),
    "clean": clean,
    "lines": clean_lines,
    "storable": storable,
    "wrapped": lambda text: wrapped(clean(text, 2000), 100),
    "fence": lambda text: template.marker(storable(text), storable(text)),
    "special tokens": lambda text: FAMILIES.count("", text),
    "special tokens broken up": FAMILIES.broken_up,
    "markdown": lambda text: markdown.escape(text),
    "answer": lambda text: answers.split_reasoning({"content": text}, "</think>"),
    **{name: encoding.decode for name, encoding in ENCODINGS.items()},
    "past tense": reword,
    "credentials": without_credentials,
    "places": placeless,
    "names": visible,
    "sheets": lambda text: unguarded(guarded(text)),
    "errors": lambda text: errors.error_for("http://x/v1", 400, text, text),
    "chat templates": lambda text: set(files._of_template(text)),
    "page": in_page,
}


def _slow(say: Connection, step: int) -> None:
    """Send the name of each parser and shape that takes too long, then an empty text."""
    for (name, parse), text in product(PARSERS.items(), list(shapes())[::step]):
        say.send(f"{name}: {text[:40]!r}")
        start = time.process_time()
        parse(text)
        seconds = time.process_time() - start
        if seconds > SECONDS:
            say.send(f"SLOW {name}: {text[:40]!r} took {seconds:.2f} s")
    say.send("")


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.nightly), 14])
def test_every_parser_of_foreign_text_takes_linear_time(step: int) -> None:
    listen, say = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_slow, args=(say, step))
    child.start()
    slow, current, deadline = [], "nothing", time.monotonic() + DEADLINE
    try:
        while listen.poll(max(0.0, deadline - time.monotonic())):
            if not (current := listen.recv()):
                break
            if current.startswith("SLOW"):
                slow.append(current)
        else:
            pytest.fail(f"not done after {DEADLINE} s: {current}")
    finally:
        child.kill()
        child.join()
    assert slow == []
