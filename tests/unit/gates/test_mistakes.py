"""Threshold files: what is said about mistakes in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks.core.errors import ThresholdError, require_known
from refusal_checks.gates import toml_file
from refusal_checks.gates.thresholds import Thresholds, load

Read = Callable[..., Thresholds]
Write = Callable[[str, str], Path]

TABLE = "[xstest_unsafe]\n"

MISTAKES = [
    ("[xstest_unsave]\nrejection_rate = { min = 0.8 }", "[xstest_unsave]", '"xstest_unsafe"'),
    (TABLE + "rejecton_rate = { min = 0.8 }", "[xstest_unsafe] rejecton_rate", '"rejection_rate"'),
    (
        "[xstest_unsafe.language.en]\ninvalid = false",
        "[xstest_unsafe.language.en]",
        "invalid",
    ),
    (TABLE + "rejection_rate = { min = 0.9, max = 0.1 }", "rejection_rate", "min 0.9 is above max"),
    (TABLE + "rejection_rate = { min = 80 }", "rejection_rate", "write 0.80: 80 is outside [0, 1]"),
    (TABLE + "rejection_rate = { max = -0.1 }", "rejection_rate", "-0.1 is outside [0, 1]"),
    (TABLE + "mean_refusal_confidence = { min = -2 }", "mean_refusal", "-2 is outside [-1, 1]"),
    (TABLE + "rejection_rate = { min = nan }", "rejection_rate", "nan"),
    (TABLE + "rejection_rate = { max = inf }", "rejection_rate", "inf"),
    (TABLE + "rejection_rate = { min = true }", "rejection_rate", "True"),
    (TABLE + "rejection_rate = { max = false }", "rejection_rate", "False"),
    (TABLE + 'rejection_rate = { min = "0.8" }', "min = '0.8'", ": write 0.8: must be a number"),
    (TABLE + 'rejection_rate = { min = "80%" }', "min = '80%'", ": write 0.80: must be a number"),
    (TABLE + 'rejection_rate = { min = "0,8" }', "min = '0,8'", ": write 0.8: must be a number"),
    (TABLE + 'rejection_rate = { min = "most" }', "min = 'most'", ": must be a number"),
    (TABLE + "rejection_rate = { max_drop = 5 }", "rejection_rate", "write 0.05: 5 is outside"),
    (TABLE + "rejection_rate = { max = 2.5 }", "rejection_rate", "write 0.025: 2.5 is outside"),
    (TABLE + "rejection_rate = { min = 80% }", "line 2", "write 0.80; not a TOML file: "),
    (TABLE + "rejection_rate = { min = 0,8 }", "line 2", "write a decimal number with a point"),
    (TABLE + "rejection_rate = 0,8", "line 2", "write a decimal number with a point"),
    (TABLE + "rejection_rate = False", "line 2", "write true or false"),
    (TABLE + "judge = degree", "line 2", "put a text in quotes"),
    (TABLE + "rejection_rate: 0.8", "line 2", "write = between a key and its value"),
    (TABLE + 'judge = "degree', "line 2", 'close the text with "'),
    (TABLE + "rejection_rate = { min = 0.8", "line 2", "close it with }"),
    (TABLE + "rejection_rate = { min = 0.8 }\n" + TABLE, "line 3", "the table is there twice"),
    ("[xstest_unsafe", "[xstest_unsafe", "close the table's name with ]"),
    ("[setings]\nconfidence = 0.9", "[setings]", 'no such table; did you mean "settings"?'),
    ("[sampleing]\nsamples = 1", "[sampleing]", 'no such table; did you mean "sampling"?'),
    (TABLE + "limt = 5", "[xstest_unsafe] limt", 'no such key; did you mean "limit"?'),
    (TABLE + 'shar256 = "a"', "[xstest_unsafe] shar256", 'no such key; did you mean "sha256"?'),
    (TABLE + "rejection_rate = { min = [0.8] }", "rejection_rate", "[0.8]"),
    (TABLE + "rejection_rate = {}", "rejection_rate", "needs min or max"),
    (TABLE + "rejection_rate = { mim = 0.8 }", "mim = 0.8", 'no such key; did you mean "min"?'),
    (
        TABLE + "rejection_rate = { min = 0.8, low = 0 }",
        "rejection_rate",
        "known: min, max, max_drop",
    ),
    (TABLE + "rejection_rate = 0.8", "rejection_rate = 0.8", "{ min = 0.8 } or { max = 0.8 }"),
    (TABLE + "rejection_rate = true", "rejection_rate = True", "{ min = ... }"),
    (TABLE + "category.fraud.rejection_rate = 0.8", "[xstest_unsafe.category.fraud]", "0.8"),
    (TABLE + "category = {}", "[xstest_unsafe] category", "metric"),
    ("xstest_unsafe = 0.8", "[xstest_unsafe]", "table"),
    ("[[xstest_unsafe]]\nrejection_rate = { min = 0.8 }", "[xstest_unsafe]", "table"),
    ("[xstest_unsafe\nrejection_rate = 1", "not a TOML file", "line 1"),
    (TABLE + "invalid_rate = false\ninvalid_rate = false", "not a TOML file", "overwrite"),
    ("[sampling]\ntemprature = 0.7", "[sampling]: temprature = 0.7", 'did you mean "temperature"?'),
    ("[sampling]\ntemperature = -1", "[sampling]: temperature = -1", "0"),
    ("[sampling]\ntemperature = nan", "[sampling]: temperature = nan", "must be at most 2"),
    ("[sampling]\nsamples = 0", "[sampling]: samples = 0", "1"),
    ("[sampling]\nsamples = true", "[sampling]: samples = True", "must be a whole number"),
    ('[sampling]\nsamples = "5"', "[sampling]: samples = '5'", "write 5: must be a whole number"),
    ("[sampling]\nsamples = 2.5", "[sampling]: samples = 2.5", "must be a whole number"),
    ("sampling = 5", "[sampling]", "table"),
    ("[settings]\nconfidence = 95", "[settings]: confidence = 95", "write 0.95: must be below 1"),
    (TABLE + "rejection_rate = { max_drop = -0.1 }", "max_drop", "-0.1"),
    (TABLE + "rejection_rate = { max_rise = 1.5 }", "rejection_rate", "1.5 is outside [0, 1]"),
    (TABLE + 'rejection_rate = { min = 0.8, decision = "sure" }', "decision", "'confident'"),
    ('[settings]\non_inconclusive = "skip"', "on_inconclusive", "'warn'"),
    ('[settings]\nmultiple_testing = "bonferroni"', "multiple_testing", "'holm'"),
    ('[settings]\nmultiple_testing = "holm"', "[settings]", 'decision = "confident"'),
    (
        '[settings]\nmultiple_testing = "holm"\ndecision = "confident"',
        "[settings]",
        'on_inconclusive = "warn"',
    ),
    ("[settings]\nlevel = 0.9", "[settings]: level = 0.9", "confidence"),
]


@pytest.mark.parametrize(("text", "place", "reason"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_named_with_its_file_table_and_key(
    read: Read, tmp_path: Path, text: str, place: str, reason: str
) -> None:
    with pytest.raises(ThresholdError) as caught:
        read("", text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'gates1.toml'}: ")
    assert "nput" not in message, "no words of pydantic's"
    assert place in message
    assert reason in message
    assert "\n" not in message


def test_a_mistake_in_a_file_that_a_later_one_overrides_is_still_one(read: Read) -> None:
    with pytest.raises(ThresholdError, match="outside"):
        read(TABLE + "rejection_rate = { min = 8 }", TABLE + "rejection_rate = { min = 0.8 }")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    with pytest.raises(ThresholdError, match=r"nowhere\.toml: cannot be read: No such file"):
        load([missing], {})


@pytest.mark.parametrize(("name", "meant"), [("smke", "smoke"), ("our.tml", "our.toml")])
def test_a_misspelt_file_is_guessed(tmp_path: Path, name: str, meant: str) -> None:
    (tmp_path / "our.toml").touch()
    with pytest.raises(
        ThresholdError, match=f'did you mean "{meant}"\\? If not, name one of yours'
    ):
        toml_file.find(tmp_path / name)


def test_a_folder_and_a_file_of_other_bytes_are_no_threshold_files(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThresholdError, match="not a TOML file"):
        load([binary], {})
    with pytest.raises(ThresholdError, match="cannot be read"):
        load([tmp_path], {})


def test_two_groups_of_one_name_cannot_share_a_test_id(read: Read) -> None:
    with pytest.raises(ThresholdError, match="xstest_unsafe-invalid_rate-en") as caught:
        read(
            "[xstest_unsafe.language.en]\ninvalid_rate = { max = 0.1 }\n"
            "[xstest_unsafe.category.en]\ninvalid_rate = { max = 0.1 }"
        )
    assert "language.en" in str(caught.value)
    assert "category.en" in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known() -> None:
    require_known("fraud", ["fraud", "arson"], "gates.toml", "category")
    with pytest.raises(ThresholdError) as caught:
        require_known("frauds", ["fraud", "arson"], "gates.toml: [b]", "category")
    message = 'gates.toml: [b]: no category "frauds"; did you mean "fraud"? Known: arson, fraud'
    assert str(caught.value) == message


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(KeyError, match="no group") as caught:
        require_known("zzz", ["fraud"], "here", "group", KeyError)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TABLE + 'judge = "keyword"', '[xstest_unsafe] judge: no way of judging "keyword"'),
        (TABLE + 'judge = "degrees"', 'did you mean "degree"? Known: degree, multiple_choice'),
        (TABLE + "judge = 3", "judge = 3"),
        ("[outdated]", '[outdated] judge: no way of judging "refusals"; did you mean "refusal"?'),
        (TABLE + 'judge = "multiple_choice"', "the prompts have no options"),
    ],
)
def test_a_way_of_judging_must_be_known_and_fit_the_prompts(
    read: Read, text: str, reason: str
) -> None:
    with pytest.raises(ThresholdError, match=r"gates0\.toml: ") as caught:
        read(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TABLE + 'file = "rows.csv"', "brings its own data"),
        (TABLE + 'sha256 = "abc"', "sha256 = 'abc'"),
        ('[mine]\nfile = 3\nexpect = "refuse"', "file = 3"),
        ('[mine]\nfile = "rows.csv"\nexpect = "refusal"', "expect = 'refusal'"),
        ('[mine]\nfil = "rows.csv"\nexpect = "refuse"', 'no benchmark "mine"'),
        ('[mine]\ndataset = "no slash"', "dataset = 'no slash'"),
    ],
)
def test_a_mistake_in_where_the_data_is(read: Read, text: str, reason: str) -> None:
    with pytest.raises(ThresholdError) as caught:
        read(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "../../pwn",
        "/abs",
        "a/b",
        "a\\\\b",
        "..",
        ".hidden",
        "a\\u0000b",
        "a\\u001bb",
        "",
        "x" * 101,
    ],
)
def test_a_benchmark_s_name_is_no_path_and_can_be_shown(write: Write, name: str) -> None:
    path = write("own.toml", f'["{name}"]\nfile = "x.csv"\nexpect = "refuse"\n')
    with pytest.raises(ThresholdError, match="rename this benchmark to") as caught:
        load([path], {})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["my set", "中文", "v1.2", "x" * 100])
def test_any_other_name_will_do(write: Write, name: str) -> None:
    path = write("own.toml", f'["{name}"]\nfile = "x.csv"\nexpect = "refuse"\n')
    assert {gate.benchmark for gate in load([path], {}).gates} == {name}


@pytest.mark.parametrize(
    "content", ["x = " + "[" * 100_000, "x = " + "9" * 5000, "[x]\nlimit = " + "9" * 4000, "\x00"]
)
def test_a_file_that_toml_s_parser_chokes_on_is_named(write: Write, content: str) -> None:
    with pytest.raises(ThresholdError, match=r"own\.toml"):
        load([write("own.toml", content)], {})
