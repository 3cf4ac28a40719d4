"""Hostile text made fit for a terminal, a log and a judge."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.layout import wrap
from refusal_checks.core.redaction import redact_paths, shorten_paths, strip_credentials
from refusal_checks.core.special_tokens import SEPARATOR, break_up, count
from refusal_checks.core.text import BLANK, replace_surrogates, sanitize, sanitize_lines
from tests.support.cases import cases_of

CASES = cases_of(__file__)

PIECES = [
    "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://example.org\x1b\\", "\x1b", "\x9b2J", "##[",
    "#", "[", "::error::", "\r\n", "\u2028", "\u202e", "\ud800", "文字", "\x1b]8;;", "\u3164",
    "e\u0301\u0301\u0301\u0301\u0301", "⚠\ufe0f\ufe0f",
]  # fmt: skip
HOSTILE = st.lists(st.characters(exclude_categories=()) | st.sampled_from(PIECES)).map(
    "".join
)
HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


LONE = ("lone \ud800 surrogate", "lone � surrogate")  # which no TOML file has


@pytest.mark.parametrize(("text", "shown"), [*CASES["shown"], LONE], ids=ascii)
def test_text_becomes_one_harmless_line(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.parametrize(
    "command", ["##[error]", "##vso[task.complete result=Succeeded;]"]
)
@pytest.mark.parametrize("text", ["words {} words", "\x1b[0m{}", "#{}"])
def test_commands_that_a_ci_system_reads_within_a_line_are_broken_up(
    text: str, command: str
) -> None:
    assert command not in sanitize(text.format(command))


def test_a_long_text_is_cut_and_shows_it() -> None:
    assert sanitize("x" * 300) == "x" * 300
    assert sanitize("x" * 301) == "x" * 299 + "…"
    assert sanitize("word " * 500, 12) == "word word w…"
    assert sanitize("word wo rd", 6) == "word…"


@given(HOSTILE, st.integers(2, 40))
def test_what_is_shown_is_bounded_and_without_controls(text: str, limit: int) -> None:
    shown = sanitize(text, limit)
    assert len(shown) <= limit
    assert not {unicodedata.category(char) for char in shown} & HARMFUL
    assert not BLANK - {"\ufe0e", "\ufe0f"} & set(shown)
    assert shown.split() == [word for word in shown.split(" ") if word]
    assert "##[" not in shown
    assert not shown.startswith("::")
    assert sanitize(shown, limit) == shown, "once more changes nothing"


@given(HOSTILE, st.text(st.characters(categories=("L", "N")), min_size=1))
def test_no_word_is_hidden_by_what_stands_before_it(text: str, word: str) -> None:
    # A CSI sequence ends with a letter, which goes with it.
    assert word[1:] in sanitize(f"{text}{word}", 10**6)


@given(HOSTILE, st.integers(20, 60))
def test_a_line_that_is_broken_begins_no_command_and_keeps_its_width(
    text: str, width: int
) -> None:
    lines = wrap(f"x: {sanitize(text)}", width)
    assert all(len(line) <= width for line in lines)
    assert not [line for line in lines if line.lstrip().startswith("::")]


@given(HOSTILE)
def test_no_line_of_a_log_is_a_command(text: str) -> None:
    shown = sanitize_lines(text)
    assert shown.count("\n") == text.count("\n")
    assert not [line for line in shown.split("\n") if line.lstrip().startswith("::")]
    assert "##[" not in shown


def test_a_log_keeps_its_indentation() -> None:
    log = "vLLM ended:\n  File x\n\n    ::error::\x1b[31mx"
    assert len(sanitize_lines(" " * 10**6 + "x", 20)) <= 40
    assert sanitize_lines(log) == "vLLM ended:\n  File x\n\n    : :error::x"


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_encoded_once_it_is_storable(text: str) -> None:
    stored = replace_surrogates(text)
    assert stored.encode().decode() == stored
    assert len(stored) == len(text)


@pytest.mark.parametrize(("text", "shown"), CASES["pathless"])
def test_paths_of_the_machine_lose_their_folders(text: str, shown: str) -> None:
    assert shorten_paths(text) == shown


def test_the_folder_of_a_run_may_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "Ann Smith"
    own.mkdir()
    monkeypatch.chdir(own)
    assert redact_paths(f"in {own}/gates.toml") == "in …/gates.toml"


@pytest.mark.parametrize(("text", "shown"), CASES["public"])
def test_what_is_public_names_no_folder_and_no_host(text: str, shown: str) -> None:
    assert redact_paths(text) == shown
    assert redact_paths(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "http://u:p@h:1/v1 https://h/v1?key=k#m.",
            "http://[...]@h:1/v1 https://h/v1?[...]#m.",
        ),
        ("'http://u:p@h?a=b@c'", "'http://[...]@c'"),
        ("http://h?key=a#http://h?key=b", "http://h?[...]#http://h"),
        ("a@b.c? //x?y", "a@b.c? //x?y"),
    ],
)
def test_urls_lose_their_passwords_and_queries(text: str, shown: str) -> None:
    assert strip_credentials(text) == shown


TOKENS = sorted({token for tokens in CASES["families"].values() for token in tokens})
VARIANTS = [
    "<|IM_END|>", "< |im_end| >", "<| im_end |>", "＜|im_end|＞", "<￨im_end￨>", "<∣im_end∣>",
    "<|im\u200b_end|>", "<\u2060|\ufeffim_end|\u00ad>", "<\u0338|im_end|>", "<|ｉｍ＿ｅｎｄ|>",
    "[inst]", "[ /INST ]", "［INST］", "<Start_Of_Turn>", "< end_of_turn >", "<|Assistant|>",
    "‹|im_end|›", "<\ud800|im_end|>", "<AVAILABLE_TOOLS>", "</TOOLCALL>", "[/SYSTEM]",
]  # fmt: skip


@pytest.mark.parametrize("text", [*TOKENS, *VARIANTS], ids=ascii)
def test_a_special_token_is_broken_up_in_every_spelling(text: str) -> None:
    shown = break_up(f"An answer.{text}\nMore.")
    assert text not in shown
    assert shown.replace(SEPARATOR, "") == f"An answer.{text}\nMore."
    assert count(text) >= 1


@pytest.mark.parametrize("text", CASES["ordinary"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert break_up(text) == text
    assert count(text) == 0


def test_tokens_that_overlap_are_all_broken_up() -> None:
    assert break_up("<<|im_end|><|im_end|>") == "<<·|im_end|><·|im_end|>"
    assert break_up("<|a<|im_end|>") == "<|a<·|im_end|>"


WORDS = st.lists(
    st.text("abcxyzABC0189", min_size=1, max_size=8), min_size=2, max_size=4
)
UNKNOWN = st.builds(
    "<{}{}>".format,
    st.sampled_from(["", "/"]),
    WORDS.map("_".join) | WORDS.map("▁".join),
)
"""Tokens of families that nobody listed: words in angle brackets, joined by an underscore."""

FORGED = st.lists(
    st.sampled_from(
        [*TOKENS, *VARIANTS, *"<>|[]·｜＜ ", "im_end", "\u200b", "½", "ﷺ", "\ud800"]
    )
    | UNKNOWN
    | st.characters(exclude_categories=())
).map("".join)


@given(FORGED)
def test_no_token_is_left_and_none_is_made(text: str) -> None:
    shown = break_up(text)
    bare = re.sub("[\u200b\u2060\ufeff\u00ad]", "", shown)
    assert not [token for token in TOKENS if token in shown or token in bare]
    assert count(shown) == 0
    assert break_up(shown) == shown
    assert len(shown) - len(text) == count(text)
    left = iter(shown)
    assert all(char in left for char in text), "only separators are added"


def test_a_command_that_a_break_puts_at_a_start_is_broken_up() -> None:
    assert wrap("words " * 3 + "::error::x", 20) == [
        "words words words",
        "  : :error::x",
    ]
    assert wrap("x" * 19 + "::error::x", 20)[1] == "  : :error::x"
