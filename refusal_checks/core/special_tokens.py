"""Special tokens of chat templates within a text, broken up so that no tokenizer takes them so.

A server renders a conversation to one string before it divides it into tokens, so a token's text in
an answer (``<|im_end|>``) ends the turn in which it is quoted. A middle dot after its first
character keeps it readable and makes it plain text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from refusal_checks.core.text import BLANK

SEPARATOR = "·"
"""What breaks a token up; in no token that is known, and left alone by Unicode normalisation."""

_S = r"\s{0,8}"

_ANGLE = (
    r"/?(?:s|bos|eos|pad|unk|mask|cls|sep|sop|eop|eot|eod|eoh|eoa|bot|image|role"
    r"|(?:start|end|begin)_of_\w{1,40}|\w{1,40}_token|end_?of_?text|_start|_end"
    r"|tools|tool_\w{1,40}|arg_(?:key|value)|function_\w{1,40}|function_calls?|think|thinking"
    r"|(?:seed|minimax):\w{1,40}"
    r"|(?:unused|reserved|special|extra_id|control|dummy|placeholder|sentinel)_?\d{1,5}"
    r"|fim_\w{1,40}|file_sep|repo_name|gh_stars|jupyter_\w{1,40}|empty_output|commit_\w{1,40}"
    r"|(?:bot|user|system|human|assistant)_(?:start|end))"
)
_SQUARE = (
    r"/?(?i:inst|gmask|smask|sys|system_prompt|available_tools|tool_calls|tool_results)"
    r"|/?(?:TOOL_CONTENT|CALL_ID|ARGS|IMG|IMG_BREAK|IMG_END|PREFIX|MIDDLE|SUFFIX|THINK|BOS|EOS"
    r"|MASK|CLS|SEP|PAD|UNK|EOT|AUDIO|BEGIN_AUDIO|TRANSCRIBE|MODEL_SETTINGS"
    r"|(?:start|end)_header_id|extra_id_\d{1,5}|(?i:unused_?(?:token_)?\d{1,5}))"
)
_FALCON = (
    "TITLE|ABSTRACT|INTRODUCTION|SUMMARY|COMMENT|ANSWER|QUESTION|DOMAIN|PREFIX|SUFFIX|MIDDLE"
    "|EMAIL_ADDRESS|IP_ADDRESS"
)

_KNOWN: tuple[tuple[str, str], ...] = (
    # ChatML, Qwen, Llama 3, Phi, Harmony (gpt-oss), ChatGLM, DeepSeek, Granite, Cohere, Kimi ...
    ("<", rf"{_S}\|[^<>|]{{1,80}}\|{_S}>"),
    # Gemma 4: <|turn> and <turn|>
    ("<", rf"{_S}\|{_S}/?\w[\w:./-]{{0,60}}{_S}>"),
    ("<", rf"{_S}/?\w[\w:./-]{{0,60}}{_S}\|{_S}>"),
    # Gemma, Llama 2, Mistral, T5, InternLM, Baichuan, Seed, Qwen's tools and thoughts
    ("<", rf"{_S}(?i:{_ANGLE}){_S}>"),
    ("<", rf"{_S}<{_S}/?{_S}(?i:sys){_S}>{_S}>"),
    # Mistral, Llama 2, ChatGLM, Kimi, BERT
    ("[", rf"{_S}(?:{_SQUARE}){_S}\]"),
    ("[", rf"{_S}\|{_S}/?[A-Za-z_]{{1,40}}{_S}\|{_S}\]"),  # EXAONE
    ("]", r"~!?b[\[\]]"),  # MiniMax
    ("]", r"<\]"),
    ("[", r"e~\["),
    ("|", rf"{_S}DSML{_S}\|"),  # DeepSeek
    ("/", r"(?i:no_?think)\b"),  # Qwen, GLM
    (">", rf">(?:{_FALCON})<<"),  # Falcon
)
"""Tokens of known families: first character, and a regular expression of what must follow."""

_LIKE = str.maketrans({
    **dict.fromkeys("∣ǀ│┃❘❙❚⏐ꞁ￨¦丨", "|"), **dict.fromkeys("‹〈⟨❮❬ᐸ˂", "<"),
    **dict.fromkeys("›〉⟩❯❭ᐳ˃", ">"),
})  # fmt: skip
"""Characters that look like those of tokens and that Unicode normalisation keeps."""


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of one model: those of known families, and its own.

    They are found whatever their letter case, with spaces within their brackets, with characters
    that only look like theirs, and with invisible characters among them.

    Attributes:
        own: reads the model's own tokens, again at each use: they may be downloaded later.
    """

    own: Callable[[], Collection[str]] = tuple

    def count(self, *texts: str) -> int:
        """How many special tokens the texts hold."""
        pattern = _pattern(frozenset(self.own()))
        return sum(1 for text in texts for _ in pattern.finditer(_folded(text)))

    def broken_up(self, text: str) -> str:
        """The text, each special token of it with a ``SEPARATOR`` after its first character."""
        folded = _folded(text)
        starts = [m.start() for m in _pattern(frozenset(self.own())).finditer(folded)]
        if not starts:
            return text
        ends = [0, *_ends(text, folded, starts)]
        pieces = (
            text[first:last] for first, last in zip(ends, [*ends[1:], len(text)], strict=True)
        )
        return SEPARATOR.join(pieces)

    def changes(self, *texts: str) -> tuple[str, ...]:
        """The texts, broken up; nothing if none of them holds a special token."""
        shown = tuple(map(self.broken_up, texts))
        return shown if shown != texts else ()


FAMILIES = SpecialTokens()
"""The tokens of all known families, for servers that do not tell theirs."""


def _ends(text: str, folded: str, starts: Iterable[int]) -> list[int]:
    """Where in the text the characters end that stand at these places of the folded text."""
    if folded is text:
        return sorted({start + 1 for start in starts})
    places = [number for number, char in enumerate(text) for _ in char.translate(_FOLD)]
    return sorted({places[start] + 1 for start in starts})


def _folded(text: str) -> str:
    """The text as it is searched: normalised character by character, without invisible ones."""
    return text if text.isascii() else text.translate(_FOLD)


class _Fold(dict[int, str]):
    """Normalised characters by code point, as they are asked for."""

    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFKD", chr(code).translate(_LIKE))
        kept = "".join(char for char in plain if not _is_invisible(char))
        self[code] = kept
        return kept


_FOLD = _Fold()


def _is_invisible(char: str) -> bool:
    return char in BLANK or unicodedata.category(char) in ("Cf", "Mn", "Me", "Cs", "Cn", "Co")


@lru_cache(maxsize=16)
def _pattern(own: frozenset[str]) -> re.Pattern[str]:
    """A pattern whose matches are the first characters of special tokens.

    The rest is looked at only, so that tokens that overlap are all found.
    """
    known = _compiled(_KNOWN)
    others = {_folded(token) for token in own}
    found = (token for token in sorted(others) if _is_token(token) and not known.match(token))
    return _compiled([*_KNOWN, *((token[0], _spaced(token[1:])) for token in found)])


def _compiled(parts: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    rests: dict[str, list[str]] = {}
    for first, rest in parts:
        rests.setdefault(first, []).append(rest)
    return re.compile(
        "|".join(f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items())
    )


def _is_token(text: str) -> bool:
    """False for spaces and single characters, which some tokenizers list as added tokens."""
    return len(text.strip()) > 1


def _spaced(rest: str) -> str:
    """The rest of a token of one's own: any letter case, spaces around punctuation."""
    pieces = re.findall(r"\w+|[^\w\s]|\s+", rest)
    return r"\s{0,4}".join(f"(?i:{re.escape(piece)})" for piece in pieces)
