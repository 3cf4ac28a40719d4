"""What the documentation site takes from the code, and the hooks of its build."""

import re

import pytest

from refusal_checks.plugin.options import OPTIONS
from tools.docs_site import generated, hooks, keys, options
from tools.docs_site.markdown import table


def test_every_option_is_shown_once_beside_its_key_or_among_those_without_one() -> None:
    shown = [
        name
        for section in options.SECTIONS
        for name in options.of_keys(section).values()
    ]
    shown += re.findall(r"`(--\w+)", options.without_key())
    assert sorted(shown) == sorted(f"--{option.name}" for option in OPTIONS)
    text = options.as_table("limits")
    row = "| `prompts`, `--limit` | integer, at least 1 | Most prompts per benchmark"
    assert row in text
    assert "`--thresholds FILE`" in options.without_key()


def test_every_key_is_described_with_type_range_and_default() -> None:
    for name, settings in options.SECTIONS.items():
        assert all(keys.described(settings).values()), name
    text = options.as_table("benchmark")
    assert "| `limit` | integer, at least 1 |" in text
    assert '| `split` | text (`"train"`) |' in text
    assert '`"pass"`, `"warn"`, `"fail"`' in options.as_table("settings")
    assert "| `model`, `--judge` | text or list of texts |" in options.as_table("judge")
    assert (
        "| `specificity` | `{ min = ... }` or `false` (`{ min = 0.9 }`) |"
        in options.as_table("judge.check")
    )


def test_a_cell_stays_a_cell() -> None:
    assert table(["a"], [["x|y\nz"]]).splitlines()[-1] == "| x\\|y z |"


def test_a_page_is_filled_where_it_says_so() -> None:
    page = "# A\n\n<!-- generated: configuration -->\n\nend"
    filled = generated.fill(page)
    assert "`refusal_checks_thresholds`" in filled
    assert filled.endswith(f"{generated.END}\n\nend")
    assert generated.fill(filled) == filled
    old = filled.replace("`refusal_checks_thresholds`", "`gone`")
    assert generated.fill(old + page) == filled + filled
    assert generated.fill("`<!-- generated: x -->`") == "`<!-- generated: x -->`"
    with pytest.raises(KeyError):
        generated.fill("<!-- generated: nothing -->")


@pytest.mark.parametrize(
    ("markdown", "sentence"),
    [
        ("# Title\n\nOne [link](a.md): two. Three.\n", "One link: two."),
        ("# Title\n\n```console\n$ a\n```\n\n| a |\n|---|\n\nText?", "Text?"),
        ("# Title\n", ""),
    ],
)
def test_a_page_is_described_by_its_first_sentence(
    markdown: str, sentence: str
) -> None:
    assert hooks.first_sentence(markdown) == sentence


def test_llms_txt_lists_pages_by_section() -> None:
    pages = [
        ("A", "One", "https://h/one.md", "Says one."),
        ("A", "Two", "https://h/two.md", ""),
    ]
    assert hooks.llms_txt("name", "What it is.", pages) == (
        "# name\n\n> What it is.\n\n## A\n\n- [One](https://h/one.md): Says one.\n"
        "- [Two](https://h/two.md)\n"
    )


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn/x.js"></script>', ["https://cdn/x.js"]),
        ("<link rel=stylesheet href=//fonts/x.css>", ["//fonts/x.css"]),
        ('<link rel="canonical" href="https://host/"><a href="https://host/">', []),
        ('<img src="../images/a.png"><script src="assets/a.js">', []),
    ],
)
def test_what_a_page_would_fetch_is_found(html: str, found: list[str]) -> None:
    assert hooks.fetched(html) == found
