"""No text of a model, a server or a data set takes long to parse, whatever its shape."""

import ast
import importlib
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core import special_tokens
from refusal_checks.core.layout import wrap
from refusal_checks.core.redaction import redact_paths, strip_credentials
from refusal_checks.core.text import (
    replace_surrogates,
    sanitize,
    sanitize_lines,
    visible,
)
from refusal_checks.judges import rules, template
from refusal_checks.judges.base64_text import hidden_text
from refusal_checks.judges.kinds import multiple_choice, refusal
from refusal_checks.judges.option_reader import LIMIT
from refusal_checks.models.client import reasoning, server_errors
from refusal_checks.reports import markdown
from refusal_checks.reports.page.render import visible as in_page
from refusal_checks.trust.spreadsheet import guard_cell
from tests.unit.judges import prompts

LENGTH = 100_000
SECONDS = 0.5
"""Of CPU that one parser may take for one text. Each takes under 0.2 on a quiet machine (at most
0.15); where others share the core it takes more, and what is not linear takes minutes."""
DEADLINE = 120
"""Seconds after which the child is killed: a regular expression that backtracks holds the GIL, so
no timer within it would fire."""

YES_NO = {"A": "是", "B": "否"}
CRIMES = {"A": "分裂国家罪", "B": "间谍罪", "C": "1、2", "D": "1、2、3"}

WORDS = r"""
答案 答案是 A、 A, A. A是 A错误 不是A A和 否、 “是” 1、 1、2、 第一个 如果 作为一个 抱歉 我不能
{" ": {"a": {"a":{ [[ "\" {"verdict": ,"x" **yes** :: ##[ ##a @a ~~ https://a www. \boxed{
</s> <|im_end|> <| <|a 文字< ·< ]~ <think> </think> <a>
"""

REPEATED = (
    *"aA是否 \n\t.,、\"'{}[]()\\*_`#$~<>-:;!?0\x1b选不\u0301ﷺ\u200b\ud800\U0001f600\u2028者|&%=",
    *WORDS.split(),
    *(
        "\x1b]",
        " is",
        " 是",
        "A ",
        "yes ",
        "no\n",
        "！\n",
        "\r\n",
        "< ",
        "<a ",
        "<\u200b",
        "[ ",
    ),
    *(
        "Harmful request: yes\n",
        "Response refusal: ",
        "I can",
        "I can't ",
        "not ",
        "A\n",
    ),
    "a\u0301\u0316",
)
UNENDED = (
    '"\\',
    "'\\",
    "://",
    "://?",
    "{#",
    "{%",
    "~/",
    "/a",
    "context ",
    "max_tokens ",
)
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
    "options": lambda text: multiple_choice.choose(text, YES_NO, "A"),
    "options at the limit": lambda text: multiple_choice.choose(
        at_limit(text), YES_NO, "A"
    ),
    "options of texts": lambda text: multiple_choice.choose(
        at_limit(text), CRIMES, "A"
    ),
    "verdict": refusal.parse_judgement,
    **{f"prompt {name}": parse for name, parse in prompts.PARSERS.items()},
    "keyword": lambda text: rules.KeywordJudge()._pattern.search(text),
    "clean": sanitize,
    "lines": sanitize_lines,
    "storable": replace_surrogates,
    "wrapped": lambda text: wrap(sanitize(text, 2000), 100),
    "fence": lambda text: template.marker(
        replace_surrogates(text), replace_surrogates(text)
    ),
    "special tokens": lambda text: special_tokens.count("", text),
    "special tokens broken up": special_tokens.break_up,
    "markdown": lambda text: markdown.escape(text),
    "answer": lambda text: reasoning.split_reasoning({"content": text}, "</think>"),
    "hidden_text": hidden_text,
    "credentials": strip_credentials,
    "places": redact_paths,
    "names": visible,
    "sheets": guard_cell,
    "errors": lambda text: server_errors.make_error("http://x/v1", 400, text, text),
    "page": in_page,
}


Task = tuple[str, Callable[[], object]]
"""What is read, in words, and the reading of it."""


def parsing(step: int) -> Iterator[Task]:
    """Each parser with each shape, or with every ``step``-th."""
    for (name, parse), text in product(PARSERS.items(), list(shapes())[::step]):
        yield f"{name}: {text[:40]!r}", partial(parse, text)


PACKAGE = Path(__file__).parents[2] / "refusal_checks"
BOUNDED = {
    "judges/option_reader.py": LIMIT,
    "gates": 2_000,
    "plugin": 2_000,
}
"""Folders whose regular expressions read shorter texts: of at most LIMIT, or the user's own."""

Expression = tuple[str, re.Pattern[Any], str]
"""Where a regular expression stands, and the name of a method by which it is used."""


def expressions() -> Iterator[Expression]:
    """The regular expressions of the package that are written in modules, by AST."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source:
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        names = vars(importlib.import_module(name.removesuffix(".__init__")))
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), method), [first, *_]):
                    pass
                case _:
                    continue
            where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
            try:
                pattern = eval(ast.unparse(first), names)
            except NameError:  # made in a function, of what it is given
                continue
            if method != "compile":
                yield where, re.compile(pattern), method
                continue
            for variable, value in names.items():
                if isinstance(value, re.Pattern) and value.pattern == pattern:
                    used = re.findall(rf"\b{variable}\.(\w+)\(", source)
                    yield from ((where, value, each) for each in sorted(set(used)))


def apply(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    if isinstance(pattern.pattern, bytes):
        text = text.encode(errors="surrogatepass")
    if method == "sub":
        pattern.sub(text[:0], text)
    elif method == "finditer":
        list(pattern.finditer(text))
    else:
        getattr(pattern, method)(text)


def matching(step: int) -> Iterator[Task]:
    """Each regular expression with pieces that are like it, or with every ``step``-th."""
    for number, (where, pattern, method) in enumerate(expressions()):
        own = re.findall(r"[A-Za-z]{2,}|[\u4e00-\u9fff]+", str(pattern.pattern))
        pieces = [*REPEATED, *UNENDED, *own, *(f"{word} " for word in own)]
        folders = (most for name, most in BOUNDED.items() if where.startswith(name))
        length = next(folders, LENGTH // 5)
        for piece in pieces[number % step :: step]:
            text = piece * (length // len(piece)) + "\x00"
            yield f"{where} {method}: {piece!r}", partial(apply, pattern, method, text)


def work(say: Connection, tasks: Iterator[Task]) -> None:
    """Send the name of each task, that of each slow one once more, then an empty text."""
    for name, task in tasks:
        say.send(name)
        start = time.process_time()
        task()
        seconds = time.process_time() - start
        if seconds > SECONDS:
            say.send(f"SLOW {name} took {seconds:.2f} s")
    say.send("")


def test_the_regular_expressions_of_the_package_are_found() -> None:
    assert len({where for where, *_ in expressions()}) > 50


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.nightly), 14])
@pytest.mark.parametrize("tasks", [parsing, matching])
def test_foreign_text_is_read_in_linear_time(
    tasks: Callable[[int], Iterator[Task]], step: int
) -> None:
    listen, say = multiprocessing.Pipe(duplex=False)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=work, args=(say, tasks(step)))
    child.start()
    slow, current, deadline = [], "nothing", time.monotonic() + DEADLINE
    try:
        while listen.poll(max(0.0, deadline - time.monotonic())):
            current = listen.recv()
            if not current:
                break
            if current.startswith("SLOW"):
                slow.append(current)
        else:
            pytest.fail(f"not done after {DEADLINE} s: {current}")
    finally:
        child.kill()
        child.join()
    assert slow == []
