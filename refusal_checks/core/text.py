"""Makes hostile text, such as model output, fit for a terminal, a log, a file or a judge."""

import hashlib
import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise, takewhile
from typing import Any

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
"""Terminal control sequences: CSI, and two-character ones. Those that carry text (OSC: titles and
links; DCS, APC) lose their first two characters only, so that no text hides in them."""

BLANK = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),  # combining grapheme joiner
        (0x115F, 0x1160),  # Hangul fillers, as are U+3164 and U+FFA0
        (0x17B4, 0x17B5),  # Khmer inherent vowels
        (0x180B, 0x180F),  # Mongolian selectors
        (0x2800, 0x2800),  # Braille without a dot
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),  # variation selectors, as are those from U+E0100 on
        (0xFFA0, 0xFFA0),
        (0x16FE4, 0x16FE4),  # Khitan filler
        (0x1D159, 0x1D159),  # musical null note head
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
"""Invisible characters of other categories (Unicode: Default_Ignorable_Code_Point, and blanks)."""


def storable(text: str) -> str:
    """The text with lone surrogates, which models emit, replaced so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def without_credentials(text: str) -> str:
    """The text with the passwords and the queries of its URLs taken out, which may be keys."""

    def public(url: re.Match[str]) -> str:
        _, at, rest = url[0].rpartition("@")
        place, asks, query = (f"[...]@{rest}" if at else url[0]).partition("?")
        _, hash_, part = query.partition("#")
        return f"{place}?[...]{hash_}{part.partition('?')[0]}" if asks else place

    return re.sub(r"(?<=://)[^\s'\"<>]+", public, text)


_PART = r"[^\s\\/,;:'\"]+[\\/]"
_FOLDERS = re.compile(
    rf"(?<![\w/.~…-])(?:(?:~[\w.-]*|[A-Za-z]:)[\\/](?:{_PART})*|[\\/](?![\\/])(?:{_PART})+)"
)
"""The folders that lead to a file, but not those of a URL."""


def pathless(text: str) -> str:
    """The text with each path of the machine cut to its last part, such as ``…/store.sqlite``."""
    return _FOLDERS.sub("…/", text)


def placeless(text: str) -> str:
    """The text without the machine's folders and the hosts of URLs, fit to be published."""
    return re.sub(r"(?<=://)[^\s/?#'\"<>]+", "…", pathless(without_credentials(text)))


_REDACTED = re.compile(r"\[redacted: sha256 [0-9a-f]{12}, \d+ characters\]")


def redacted(original: str) -> str:
    """Hash and length of a text; an empty or redacted one stays as it is."""
    if not original or is_redacted(original):
        return original
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"[redacted: sha256 {digest}, {len(original)} characters]"


def is_redacted(shown: str) -> bool:
    """True if the text is a hash and a length in place of another."""
    return _REDACTED.fullmatch(shown) is not None


def has_redacted(shown: str) -> bool:
    """True if a part of the text, such as one turn of a conversation, is redacted."""
    return _REDACTED.search(shown) is not None


def clean(text: str, limit: int = 300) -> str:
    """One harmless line: no terminal escapes, control or bidirectional characters, or line breaks.

    What is invisible, or the fifth and later mark on one character, is shown as U+FFFD.
    ``##[command]`` and ``##name[command]`` anywhere in a line, and ``::command`` at its start, are
    broken up, because CI systems act on them. An ellipsis marks what is cut.
    """
    shown = _harmless(" ".join(_ESCAPES.sub("", text).split())[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def visible(line: str) -> str:
    """A line of ours that shows names from files: as harmless as ``clean``, with all its spaces."""
    return _harmless(_ESCAPES.sub("", line))


def _harmless(line: str) -> str:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn"}  # controls, bidirectional marks, surrogates
    shown, before, marks = [], " ", 0
    for char in line:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        is_blank = category in hidden or (char in BLANK and not is_style(before, char))
        # No ordinary orthography stacks more than four marks.
        shown.append("�" if is_blank or marks > 4 else char)
        before = char
    # "##" may start a CI system's command.
    return _no_command(re.sub(r"##(?=[\w.]*\[)", "# #", "".join(shown)))


def _no_command(line: str) -> str:
    """The line without a CI command at its start, with or without white space before it."""
    return re.sub(r"^(\s*):(?=:)", r"\1: ", line)


def is_style(before: str, char: str) -> bool:
    """True if a variation selector chooses between text and emoji for the symbol before it."""
    return char in "\ufe0e\ufe0f" and unicodedata.category(before) in (
        "So",
        "Sm",
        "Po",
        "Nd",
        "Sk",
    )


def brief(value: Any) -> str:
    """A value from data for a message: itself if it is a short word, else only its type and length.

    What is longer may be a text that a run keeps to itself (``--redact``).
    """
    if re.fullmatch(r"[\w.+\-\[\]{}]{1,20}", str(value)):
        return repr(value)
    size = f" of {len(value)} characters" if isinstance(value, str) else ""
    return f"{type(value).__name__}{size}"


def is_name(text: str) -> bool:
    """True if a text from data is a name for a message: too short to be one to keep to itself."""
    return len(text.split()) <= 2 and len(text.encode("utf-8", "replace")) <= 32


def listed(names: Iterable[str]) -> str:
    """Names from data, such as columns, for a message; of long ones and of many only how many."""
    found = sorted(names)
    shown = list(filter(is_name, found))[:30]
    rest = len(found) - len(shown)
    if not shown:
        return count(rest, "longer name")
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def in_a_row(words: Iterable[str]) -> str:
    """Words as in a sentence, each once and in order: ``degrees, harm and ratings``."""
    *others, last = sorted(set(words))
    return f"{', '.join(others)} and {last}" if others else last


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """The names, shortened to this many characters where they are alike."""
    first, letters = names[0], zip(*names, strict=False)
    several = len({*names}) > 1
    start = (
        sum(1 for _ in takewhile(lambda each: len({*each}) == 1, letters))
        if several
        else 0
    )
    for _ in range(8):  # the whole word in which they differ, if that is short
        start -= start > 0 and first[start - 1].isalnum()
    half = (width - 1) // 2

    def shown(name: str) -> str:
        differs = name[start:] if start else name[-half:]
        if len(name) <= width:
            return name
        if len(differs) < width:
            return f"{name[: width - 1 - len(differs)]}…{differs}"
        return f"…{differs[: width - 2]}…"

    return [shown(name) for name in names]


def clean_lines(text: str, limit: int = 2000) -> str:
    """Several lines, made harmless, with their indentation; ``limit`` is that of each and of it."""
    lines = text.split("\n")
    # Each different line once: a model that repeats itself, or an empty line, costs nothing.
    harmless = {line: clean(line, limit) for line in {*lines} - {""}}
    indented = {
        line: min(limit, len(line) - len(line.lstrip(" "))) for line in harmless
    }
    return "\n".join(line and " " * indented[line] + harmless[line] for line in lines)


def json_text(value: Any) -> str:
    """A value as JSON whose lines are harmless in a terminal and in a CI system's log."""
    # Other texts than strings have no "#", and every line but the brackets begins with a space.
    return json.dumps(value, indent=2, default=str).replace("##", "\\u0023#")


def columns(text: str) -> int:
    """Columns that a text takes in a terminal; East Asian characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """As much of a text as fits this width; an ellipsis marks what is cut."""
    from rich.cells import set_cell_size

    return text if columns(text) <= width else set_cell_size(text, width - 1) + "…"


def padded(text: str, width: int) -> str:
    """The text cut or filled up to exactly this width."""
    from rich.cells import set_cell_size

    return set_cell_size(cut(text, width), width)


def table(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), width: int = 10_000
) -> Iterator[str]:
    """Rows of harmless cells as lines with aligned columns, those of ``right`` to the right.

    The first cell is cut where the width, in columns of a terminal, is too narrow.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        for number in range(len(grid.columns), len(row)):
            grid.add_column(
                justify="right" if number in right else "left", no_wrap=number > 0
            )
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    return (line.rstrip() for line in capture.get().splitlines())


def wrapped(line: str, width: int) -> list[str]:
    """A harmless line as several of this width, none of which starts with a CI command."""
    # Breaking up a command takes one column.
    lines = textwrap.wrap(
        line, width - 1, subsequent_indent="  ", break_on_hyphens=False
    )
    return [_no_command(line) for line in lines]


def duration(seconds: float) -> str:
    """A rough duration, for example ``3 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count(number: int, noun: str) -> str:
    """A number of things, for example ``1 prompt`` or ``2 prompts``."""
    return f"{number} {noun}{'s' * (number != 1)}"


SEPARATOR = "·"
"""What breaks a token up; in no token that is known, and left alone by Unicode normalisation."""

_S = r"\s{0,8}"

_ANGLE = (
    r"/?(?:s|sys|usr|asst|bo[ha]|bos|eos|pad|unk|mask|cls|sep|(?:so|eo)[a-z]|bot|image|role|start|end|begin|turn"
    r"|end_?of_?text|tools|function|think|thinking|(?:seed|minimax):\w{1,40}"
    r"|(?:unused|reserved|special|control|dummy|placeholder|sentinel)\d{1,5})"
)
_JOINED = r"/?[\w:.-]{0,40}[_▁][\w▁:.-]{0,40}"
"""Words joined by an underscore, as in nearly all tokens of angle brackets, whichever the family:
<beginning_of_sentence>, <extra_id_1>, <C_Q>. No tag of HTML has one."""

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

    A server renders a conversation to one string before it divides it into tokens, so a token's
    text in an answer (``<|im_end|>``) ends the turn in which it is quoted. A ``SEPARATOR`` after
    its first character keeps it readable and makes it plain text.

    They are found whatever their letter case, with spaces within their brackets, with characters
    that only look like theirs, and with invisible characters among them.
    """

    # reads the model's own tokens, again at each use: they may be downloaded later
    own: Callable[[], Collection[str]] = tuple

    def count(self, *texts: str) -> int:
        own = frozenset(self.own())
        return sum(len(_starts(own, text)) for text in texts)

    def broken_up(self, text: str) -> str:
        """The text, each special token of it with a ``SEPARATOR`` after its first character."""
        starts = _starts(frozenset(self.own()), text)
        if not starts:
            return text
        places = [number for number, char in enumerate(text) for _ in _plain(char)]
        ends = sorted({places[start] + 1 for start in starts})
        pieces = (text[first:last] for first, last in pairwise([0, *ends, len(text)]))
        return SEPARATOR.join(pieces)

    def changes(self, *texts: str) -> tuple[str, ...]:
        """The texts, broken up; nothing if none of them holds a special token."""
        shown = tuple(map(self.broken_up, texts))
        return shown if shown != texts else ()


FAMILIES = SpecialTokens()
"""The tokens of all known families, for servers that do not tell theirs."""


def _folded(text: str) -> str:
    """The text as it is searched: normalised character by character, without invisible ones."""
    return text if text.isascii() else "".join(map(_plain, text))


@cache
def _plain(char: str) -> str:
    normal = unicodedata.normalize("NFKD", char.translate(_LIKE))
    gone = {"Cf", "Mn", "Me", "Cs", "Cn", "Co"}
    return "".join(
        c for c in normal if c not in BLANK and unicodedata.category(c) not in gone
    )


@lru_cache(
    maxsize=1024
)  # asked for a verdict's key, for its request, and once it is there
def _starts(own: frozenset[str], text: str) -> tuple[int, ...]:
    return tuple(match.start() for match in _pattern(own).finditer(_folded(text)))


@lru_cache(maxsize=16)
def _pattern(own: frozenset[str]) -> re.Pattern[str]:
    """A pattern whose matches are the first characters of special tokens.

    The rest is looked at only, so that tokens that overlap are all found.
    """
    known = _compiled(_KNOWN)
    others = {_folded(token) for token in own}
    # Some tokenizers list spaces and single characters as added tokens.
    found = (
        one for one in sorted(others) if len(one.strip()) > 1 and not known.match(one)
    )
    return _compiled([*_KNOWN, *((token[0], _spaced(token[1:])) for token in found)])


def _compiled(parts: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    rests: dict[str, list[str]] = {}
    for first, rest in parts:
        rests.setdefault(first, []).append(rest)
    return re.compile(
        "|".join(
            f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()
        )
    )


def _spaced(rest: str) -> str:
    """The rest of a token of one's own: any letter case, spaces around punctuation."""
    pieces = re.findall(r"\w+|[^\w\s]|\s+", rest)
    return r"\s{0,4}".join(f"(?i:{re.escape(piece)})" for piece in pieces)
