"""Judge prompts: Markdown files that turn an exchange into messages for a judge.

The constant part comes first, for the engine's prefix cache. A file may begin with a line ``format:
NAME``, the format in which the judge answers (``json`` by default). Instructions on the form of the
answer may stand between the lines ``ORDER`` and ``ALONE``; if only the verdict is asked for, the
text after ``ALONE`` replaces them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.special_tokens import FAMILIES, SpecialTokens

FOLDER = Path(__file__).parent / "prompts"

SEPARATOR = "\n===== exchange =====\n"
"""Separates the constant system message from the user message; optional."""

ORDER = "===== output ====="
ALONE = "===== verdict alone ====="
"""Begin what orders the form of the answer, and what takes its place, which lasts to the end of the
system or of the user message. Either message may have both, and one must have them for
``judge.rationales = "offenders"``."""

JSON = "json"
"""The default format: the judge's own JSON object."""

_HEADER = re.compile(r"format:[ \t]*(.*?)[ \t]*\r?\n")

_ORDERS = re.compile(
    rf"^{ORDER}\n(?P<whole>.*?)\n{ALONE}\n(?P<alone>.*?)(?=\n{SEPARATOR.strip()}$|\Z)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class JudgePrompt:
    """A judge prompt, ready to be filled.

    Attributes:
        system: the system message, byte-identical for every exchange; may be empty.
        user: makes the user message from ``marker``, ``request`` and ``answer``.
        sha256: digest of the file, in hexadecimal.
        alone: the prompt that asks for the verdict alone; None if the file has none.
    """

    name: str
    system: str
    user: Callable[..., str]
    sha256: str
    format: str = JSON
    alone: JudgePrompt | None = None

    def with_rubric(self, guide: Path | None) -> JudgePrompt:
        """The prompt with ``Benchmark.category_guide`` at its end, if that is Markdown."""
        if guide is None or guide.suffix != ".md":
            return self
        text = guide.read_text(encoding="utf-8").strip()
        digest = hashlib.sha256(f"{self.sha256}\n{text}".encode()).hexdigest()
        alone = self.alone.with_rubric(guide) if self.alone else None
        system = f"{self.system}\n\n# Rubric\n\n{text}".strip()
        return replace(self, system=system, sha256=digest, alone=alone)

    def messages(
        self,
        prompt: Prompt,
        answer: str,
        limit: int | None = None,
        special: SpecialTokens = FAMILIES,
    ) -> tuple[Message, ...]:
        """The conversation that asks for a verdict on an answer, cut to ``limit`` characters.

        Special tokens in request and answer are broken up.
        """
        request = prompt.transcript
        fence = marker(request, answer)
        shown = special.broken_up(shorten(answer, limit, fence))
        text = self.user(marker=fence, request=special.broken_up(request), answer=shown)
        user = Message("user", text)
        if not self.system:
            return (user,)
        return (Message("system", self.system), user)


def marker(request: str, answer: str) -> str:
    """A code of 8 hexadecimal digits that the exchange does not contain.

    It is a hash of the exchange, so equal exchanges give equal prompts, and no answer can predict
    it. If the exchange happens to contain the code, the hash is taken again.
    """
    text = f"{len(request)}:{request}{answer}"
    attempt = 0
    while True:
        code = hashlib.sha256(f"{attempt}:{text}".encode()).hexdigest()[:8]
        if code not in text:
            return code
        attempt += 1


@cache
def load(name: str, formats: tuple[str, ...] = (JSON,)) -> JudgePrompt:
    """Load a judge prompt by name: one of this package's, or the path of a Markdown file.

    The lines ``ORDER`` and ``ALONE``, with the text after the latter, change nothing in a prompt
    that asks for reasons too, not even its digest. ``formats`` lists what the judge can read.
    """
    own = {file.stem: file for file in FOLDER.glob("*.md")}
    path = Path(name) if name.endswith(".md") else own.get(name)
    if path is None or not path.is_file():
        raise ModelError(
            f"--judge-prompt {name}: no such template. Known: {', '.join(sorted(own))}, "
            "or a .md file"
        )
    text = path.read_text(encoding="utf-8")
    whole = _prompt(name, ordered(text), formats)
    if _ORDERS.search(text):
        alone = _prompt(name, ordered(text, "alone"), formats)
        digest = hashlib.sha256(f"{ALONE}\n{alone.sha256}".encode()).hexdigest()
        return replace(whole, alone=replace(alone, sha256=digest))
    if ALONE in text:
        raise ModelError(
            f"--judge-prompt {name}: write a line {ORDER} above what the line {ALONE} replaces"
        )
    return whole


def ordered(text: str, way: str = "whole") -> str:
    """A file's text with one of its two instructions on the form of the answer."""
    return _ORDERS.sub(lambda orders: orders[way], text)


def _prompt(name: str, text: str, formats: tuple[str, ...]) -> JudgePrompt:
    # Slow imports, which collection does not need.
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    output, body = JSON, text
    declared = _HEADER.match(text)
    if declared:
        output, body = declared[1], text[declared.end() :]
    if output not in formats:
        raise ModelError(
            f"--judge-prompt {name}: its format is {output!r}; this benchmark's judge reads: "
            + ", ".join(formats)
        )
    # The last separator: instructions may quote one.
    system, _, user = body.rpartition(SEPARATOR)
    # A template may come from anybody, and must not reach Python's objects. It writes
    # plain text for a model, not HTML.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        template = environment.from_string(user.strip())
        # An unknown variable or a forbidden attribute is found now, not at the first answer.
        template.render(marker="", request="", answer="")
        template.render(marker="code", request="request", answer="answer")
    except (
        TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ) as fault:
        raise ModelError(
            f"--judge-prompt {name}: not a usable template: {fault}"
        ) from None
    return JudgePrompt(name, system.strip(), template.render, digest, output)


def left_out(answer: str, limit: int | None) -> int:
    """How many characters of an answer a judge with this limit does not see."""
    if limit is None:
        return 0
    return max(0, len(answer) - limit)


def shorten(answer: str, limit: int | None, code: str) -> str:
    """Shorten an answer to ``limit``: head and tail, around a line that counts what is left out.

    The marker distinguishes this line from any in the answer.
    """
    missing = left_out(answer, limit)
    if limit is None or not missing:
        return answer
    head = answer[: limit - limit // 2]
    tail = answer[len(answer) - limit // 2 :]
    return (
        f"{head}\n[{missing} characters of the answer are left out here {code}]\n{tail}"
    )
