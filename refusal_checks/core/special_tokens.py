"""Find the special tokens of chat models, however spelt, and break them up for judges."""

import re
import unicodedata
from functools import cache, lru_cache

from refusal_checks.core.text import BLANK

SEPARATOR = "·"
"""Breaks a token up: no known token contains it, and Unicode normalisation keeps it."""


_S = r"\s{0,8}"


_ANGLE = (
    r"/?(?:s|sys|usr|asst|bo[ha]|bos|eos|pad|unk|mask|cls|sep|(?:so|eo)[a-z]|bot|image|role|start|end|begin|turn"
    r"|end_?of_?text|tools|function|think|thinking|(?:seed|minimax):\w{1,40}"
    r"|guardian|no-?think|score|confidence"
    r"|(?:unused|reserved|special|control|ctrl|dummy|placeholder|sentinel)\d{1,5})"
)


_JOINED = r"/?[\w:.-]{0,40}[_▁][\w▁:.-]{0,40}"
"""Words joined by underscores, as in nearly all tokens in angle brackets of any model family:
<beginning_of_sentence>, <extra_id_1>, <C_Q>. No HTML tag has one."""


_SQUARE = (
    r"/?(?i:inst|gmask|smask|sys|system_prompt|available_tools|tool_calls|tool_results)"
    r"|/?(?:ARGS|IMG|PREFIX|MIDDLE|SUFFIX|THINK|BOS|EOS|MASK|CLS|SEP|PAD|UNK|EOT|AUDIO|TRANSCRIBE"
    r"|(?:start|end)_header_id|extra_id_\d{1,5}|(?i:unused_?(?:token_)?\d{1,5}))"
    r"|/?[A-Z][A-Z0-9]{0,20}(?:_[A-Z0-9]{1,20}){1,4}"  # [TOOL_CONTENT]
    r"|@[A-Za-z_]{1,20}@|(?i:round)\s{1,4}\d{1,4}"  # Sarvam, ChatGLM 2
)


_FALCON = (
    "TITLE|ABSTRACT|INTRODUCTION|SUMMARY|COMMENT|ANSWER|QUESTION|DOMAIN|PREFIX|SUFFIX|MIDDLE"
    "|EMAIL_ADDRESS|IP_ADDRESS"
)


_ROLES = (
    "user|human|system|assistant|bot|ai|gpt|model|developer|function|environment|observation"
    "|用户|系统|助手|机器人|问|答"
)


_KNOWN: tuple[tuple[str, str], ...] = (
    # ChatML, Qwen, Llama 3, Phi, Harmony (gpt-oss), ChatGLM, DeepSeek, Granite, Cohere, Kimi ...
    ("<", rf"{_S}\|[^<>|]{{1,80}}\|{_S}>"),
    # Gemma 4: <|turn> and <turn|>
    ("<", rf"{_S}\|{_S}/?\w[\w:./-]{{0,60}}{_S}>"),
    ("<", rf"{_S}/?\w[\w:./-]{{0,60}}{_S}\|{_S}>"),
    # Gemma, Llama 2, Mistral, T5, InternLM, Baichuan, Seed, Qwen's tools and thoughts
    ("<", rf"{_S}(?i:{_ANGLE}){_S}>"),
    ("<", rf"{_S}{_JOINED}{_S}>"),
    ("<", rf"{_S}\[[^\[\]<>]{{1,60}}\]{_S}>"),  # Seed-Coder
    ("<", rf"{_S}<{_S}/?{_S}(?i:sys){_S}>{_S}>"),
    # What divides policy and conversation in the templates of guards: <END CONVERSATION>
    ("<", rf"{_S}/?(?i:begin|end) [A-Za-z][A-Za-z ]{{0,60}}{_S}>"),
    # Mistral, Llama 2, ChatGLM, Kimi, BERT
    ("[", rf"{_S}(?:{_SQUARE}){_S}\]"),
    ("[", rf"{_S}\|[^\[\]|]{{1,40}}\|{_S}\]"),  # EXAONE, Baize
    # What looks like a marker of a role or of tools, in whichever family: <system>,
    # [USER], <TOOLCALL>, <user-1>
    ("<", rf"{_S}/?(?i:(?:[a-z0-9]{{1,20}}-)?(?:{_ROLES})(?:-\w{{1,20}})?){_S}>"),
    ("<", rf"{_S}/?(?i:[a-z]{{0,20}}tool[a-z]{{0,20}}){_S}>"),
    ("[", rf"{_S}/?(?i:{_ROLES}){_S}\]"),
    ("]", r"~!?b[\[\]]"),  # MiniMax
    ("]", r"<\]"),
    ("[", r"e~\["),
    ("|", rf"{_S}DSML{_S}\|"),  # DeepSeek
    ("/", r"(?i:no_?think)"),  # Qwen, GLM
    (">", rf">(?:{_FALCON})<<"),  # Falcon
    # Vicuna and Alpaca, whose turns begin with plain words
    *((word[0], f"{word[1:]}:") for word in ("USER", "ASSISTANT")),
    ("#", rf"##{_S}(?i:instruction|input|response|system|user|human|assistant):"),
)
"""Tokens of known model families: the first character, and a regular expression for the rest."""


_LIKE = str.maketrans({
    **dict.fromkeys("∣ǀ│┃❘❙❚⏐ꞁ￨¦丨", "|"), **dict.fromkeys("‹〈⟨❮❬ᐸ˂", "<"),
    **dict.fromkeys("›〉⟩❯❭ᐳ˃", ">"),
})  # fmt: skip
"""Lookalikes of characters in tokens that Unicode normalisation keeps."""

INVISIBLE = frozenset({"Cf", "Mn", "Me", "Cs", "Cn", "Co"})
"""Unicode categories of characters that the search ignores."""


def count(*texts: str) -> int:
    """Count the special tokens in some texts."""
    return sum(len(_starts(text)) for text in texts)


def break_up(text: str) -> str:
    """Insert a ``SEPARATOR`` after the first character of each special token in a text.

    A server renders a conversation to one string before tokenising it, so a token quoted in an
    answer (``<|im_end|>``) would end the turn that quotes it. The separator makes it plain text
    that people can still read.

    Tokens are found (most in either case) with spaces inside the brackets, with lookalike
    characters, and with invisible characters in between.
    """
    starts = set(_starts(text))
    if not starts:
        return text
    # Starts are places in the folded text, where a character may have become several or none.
    pieces, place = [], 0
    for char in text:
        pieces.append(char)
        folded = len(_fold_character(char))
        if not starts.isdisjoint(range(place, place + folded)):
            pieces.append(SEPARATOR)
        place += folded
    return "".join(pieces)


def _fold(text: str) -> str:
    """Normalise a text for the search, character by character, and drop invisible characters."""
    if text.isascii():
        return text
    return "".join(map(_fold_character, text))


@cache
def _fold_character(char: str) -> str:
    normal = unicodedata.normalize("NFKD", char.translate(_LIKE))
    return "".join(filter(_is_visible, normal))


def _is_visible(char: str) -> bool:
    return char not in BLANK and unicodedata.category(char) not in INVISIBLE


# Asked for a verdict's key, for its request, and once it is there.
@lru_cache(maxsize=1024)
def _starts(text: str) -> tuple[int, ...]:
    """The positions in the folded text where special tokens begin."""
    return tuple(match.start() for match in _pattern().finditer(_fold(text)))


@cache
def _pattern() -> re.Pattern[str]:
    """A pattern that matches the first character of each special token.

    The rest is a lookahead, so that overlapping tokens are all found.
    """
    rests: dict[str, list[str]] = {}
    for first, rest in _KNOWN:
        rests.setdefault(first, []).append(rest)
    tokens = []
    for first, several in rests.items():
        tokens.append(f"{re.escape(first)}(?={'|'.join(several)})")
    return re.compile("|".join(tokens))
