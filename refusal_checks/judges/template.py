"""Judge prompts: Markdown files that turn an exchange into messages for a judge.

A file begins with front matter (``prompt_metadata``). The rest are turns, each below a line that
names it (``SECTIONS``). The constant part comes first, for the engine's prefix cache.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Message, Prompt, Role
from refusal_checks.core.special_tokens import break_up
from refusal_checks.io.files import read_once
from refusal_checks.judges.prompt_metadata import PromptMetadata, split_front_matter


class UnrenderedError(ModelError):
    """A template fails, for all exchanges or for one."""


FOLDER = Path(__file__).parent / "prompts"

SYSTEM = "system"
"""The section with the constant system message."""

EXCHANGE = "exchange"
"""The section, without a text of its own, in whose place the exchange stands as turns of a user and
an assistant, so that the judge's own chat template lays it out."""

SECTIONS = (SYSTEM, "user", "assistant", EXCHANGE)
"""Names allowed in a line such as ``===== user =====``."""

_SECTION = re.compile(rf"^===== ({'|'.join(SECTIONS)}) =====$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A turn of a judge prompt.

    Attributes:
        name: one of ``SECTIONS``.
        text: the constant text of a system message; else as the file has it.
        render: makes the text of any other turn from ``marker``, ``request`` and ``answer``; None
            for the system message and the exchange.
    """

    name: str
    text: str
    render: Callable[..., str] | None = None


@dataclass(frozen=True)
class JudgePrompt:
    """A judge prompt, ready to be filled.

    Attributes:
        sections: its turns in order; at most one system message, which is the first.
        sha256: digest of the file, without what changes no verdict, in hexadecimal.
    """

    name: str
    metadata: PromptMetadata
    sections: tuple[Section, ...]
    sha256: str

    @property
    def system(self) -> str:
        """The system message, byte-identical for every exchange; may be empty."""
        first = self.sections[0]
        return first.text if first.name == SYSTEM else ""

    def with_rubric(self, guide: Path | None) -> JudgePrompt:
        """The prompt with ``Benchmark.category_guide`` in its system message, if it takes one.

        A fine-tuned judge knows only the prompt of its training.
        """
        takes_one = self.system or self.metadata.reads == "json"
        if self.metadata.models or not takes_one or not guide or guide.suffix != ".md":
            return self
        text = guide.read_text(encoding="utf-8").strip()
        digest = hashlib.sha256(f"{self.sha256}\n{text}".encode()).hexdigest()
        system = Section(SYSTEM, f"{self.system}\n\n# Rubric\n\n{text}".strip())
        others = tuple(each for each in self.sections if each.name != SYSTEM)
        return replace(self, sections=(system, *others), sha256=digest)

    def messages(
        self, prompt: Prompt, answer: str, limit: int | None = None
    ) -> tuple[Message, ...]:
        """The conversation that asks for a verdict on an answer, cut to ``limit`` characters.

        Special tokens in request and answer are broken up.
        """
        request = prompt.transcript
        # A fence with a fixed text could be closed by an answer, which then speaks as the prompt.
        fence = marker(request, answer)
        shown = break_up(shorten(answer, limit, fence))
        # Shortened first: breaking up tokens makes a text longer, and the limit is of the answer.
        values = {"marker": fence, "request": break_up(request), "answer": shown}
        messages: list[Message] = []
        for section in self.sections:
            if section.name == EXCHANGE:
                messages += exchange(prompt, shown)
            elif section.name == SYSTEM:
                messages.append(Message("system", section.text))
            else:
                assert section.render
                role: Role = "assistant" if section.name == "assistant" else "user"
                messages.append(Message(role, section.render(**values)))
        return tuple(messages)


def exchange(prompt: Prompt, shown: str) -> list[Message]:
    """The exchange as turns: a user's and an assistant's in turn, the answer last.

    Many chat templates refuse any other order. A system message stands before the user's words: to
    a judge, it would be an instruction of its own.

    Args:
        shown: the answer, in which special tokens are broken up.
    """
    turns: list[Message] = []
    for turn in prompt.messages:
        role: Role = "assistant" if turn.role == "assistant" else "user"
        text = break_up(turn.content)
        if turns and turns[-1].role == role:
            text = f"{turns.pop().content}\n\n{text}"
        turns.append(Message(role, text))
    return [*turns, Message("assistant", shown)]


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


@read_once
def load(name: str) -> JudgePrompt:
    """Load a judge prompt: one of this package's by name, or a Markdown file by path."""
    own = {file.stem: file for file in FOLDER.glob("*.md")}
    path = Path(name) if name.endswith(".md") else own.get(name)
    if path is None or not path.is_file():
        raise ModelError(
            f"judge.prompt {name}: no such judge prompt. Known: {', '.join(sorted(own))}, "
            "or a .md file"
        )
    return _parse_prompt(name, _read_text(path, f"judge.prompt {name}"))


def _read_text(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise ModelError(f"{where}: cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        raise ModelError(
            f"{where}: save it as UTF-8: byte {fault.start} is in another encoding"
        ) from None


@cache
def list_packaged() -> Mapping[str, PromptMetadata]:
    """The front matter of this package's prompts, by name."""
    by_name = {}
    for file in sorted(FOLDER.glob("*.md")):
        by_name[file.stem], _ = split_front_matter(
            file.read_text(encoding="utf-8"), file.name
        )
    return by_name


def find_packaged(*names: str) -> str | None:
    """The package's prompt for a model with one of these names, if there is one."""
    for prompt, metadata in list_packaged().items():
        if metadata.suits(*names):
            return prompt
    return None


def _parse_prompt(name: str, text: str) -> JudgePrompt:
    where = f"judge.prompt {name}"
    metadata, body = split_front_matter(text, where)
    sections = _parse_sections(where, body)
    digest = hashlib.sha256(f"{metadata.key}\n{body}".encode()).hexdigest()
    return JudgePrompt(name, metadata, sections, digest)


def _parse_sections(where: str, body: str) -> tuple[Section, ...]:
    before, *pieces = _SECTION.split(body)
    if before.strip() or not pieces:
        raise ModelError(
            f"{where}: write a line ===== user ===== above the message to the judge, and "
            "===== system ===== above constant instructions"
        )
    sections: list[Section] = []
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        text = text.strip()
        if name == EXCHANGE and text:
            raise ModelError(
                f"{where}: write ===== user ===== above the message to the judge: the line "
                "===== exchange ===== stands for the exchange itself and has no text"
            )
        if name == SYSTEM and sections:
            raise ModelError(f"{where}: write ===== system ===== first, and once")
        render = None
        if name not in (SYSTEM, EXCHANGE):
            render = _make_renderer(where, text)
        if text or name == EXCHANGE:
            sections.append(Section(name, text, render))
    _require_shown(where, sections)
    return tuple(sections)


def _require_shown(where: str, sections: list[Section]) -> None:
    """Raise ModelError unless the prompt contains the answer; otherwise all verdicts are equal."""
    for section in sections:
        if section.name == EXCHANGE:
            return
        if section.render and "@@" in section.render(
            marker="", request="", answer="@@"
        ):
            return
    raise ModelError(
        f"{where}: write {{{{ answer }}}} where the answer stands, or a line ===== exchange ====="
    )


def _make_renderer(where: str, text: str) -> Callable[..., str]:
    # Slow imports, which collection does not need.
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # A template may come from anybody, and must not reach Python's objects. It writes
    # plain text for a model, not HTML.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False
    )
    try:
        template = environment.from_string(text)
    except Exception as fault:  # Python's compiler has limits of its own
        raise UnrenderedError(f"{where}: not a usable template: {fault}") from None

    def render(**values: str) -> str:
        try:
            return template.render(**values)
        # The expressions in a template may raise anything.
        except Exception as fault:
            raise UnrenderedError(f"{where}: not a usable template: {fault}") from None

    # An unknown variable or a forbidden attribute is found now, not at the first answer.
    # Once with empty texts and once with others, since a template may branch on them.
    render(marker="", request="", answer="")
    render(marker="code", request="request", answer="answer")
    return render


def count_omitted(answer: str, limit: int | None) -> int:
    """How many characters of an answer a judge with this limit does not see."""
    if limit is None:
        return 0
    return max(0, len(answer) - limit)


def shorten(answer: str, limit: int | None, code: str) -> str:
    """Shorten an answer to ``limit``: head and tail, around a line that counts what is left out.

    The marker distinguishes this line from any in the answer.
    """
    missing = count_omitted(answer, limit)
    if limit is None or not missing:
        return answer
    # Both ends: refusals stand at the beginning, and what was asked for may follow at the end.
    head = answer[: limit - limit // 2]
    tail = answer[len(answer) - limit // 2 :]
    return (
        f"{head}\n[{missing} characters of the answer are left out here {code}]\n{tail}"
    )
