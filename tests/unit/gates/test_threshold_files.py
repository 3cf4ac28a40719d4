"""Threshold files: what they say, and what is said of mistakes in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.benchmarks import catalogue
from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.errors import ThresholdError, require_known
from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.threshold_files import Thresholds, load

Write = Callable[[str, str], Path]

BENCHMARKS = {
    name: Benchmark(name, Kind.SAFETY, "", lambda mirror: [], "1", judge)
    for name, judge in {
        "xstest_safe": "refusal",
        "xstest_unsafe": "refusal",
        "smoke_unsafe": "refusal",
        "questions": "multiple_choice",
        "outdated": "refusals",
    }.items()
}
TABLE = "[xstest_unsafe]\n"


@pytest.fixture
def read(write: Write) -> Callable[..., Thresholds]:
    """Load threshold files of these texts, in order; without default gates."""

    def load_texts(*texts: str) -> Thresholds:
        found = load_all(write, *texts)
        return replace(found, gates=tuple(g for g in found.gates if g.source != "default gate"))

    return load_texts


def load_all(write: Write, *texts: str) -> Thresholds:
    paths = [write(f"gates{number}.toml", text) for number, text in enumerate(texts)]
    return load(paths, BENCHMARKS)


Read = Callable[..., Thresholds]


def bounds(found: Thresholds) -> dict[str, tuple[float | None, float | None]]:
    return {gate.id: (gate.minimum, gate.maximum) for gate in found.gates}


def test_a_table_is_a_benchmark_and_a_key_its_metric(read: Read, tmp_path: Path) -> None:
    found = read("[xstest_unsafe]\nrejection_rate = { min = 0.8 }\ninvalid_rate = { max = 0 }\n")
    source = str(tmp_path / "gates0.toml")
    assert found.gates == (
        Gate("xstest_unsafe", "rejection_rate", 0.8, None, source=source),
        Gate("xstest_unsafe", "invalid_rate", None, 0.0, source=source),
    )


@pytest.mark.parametrize("nothing", ["", "# only words\n"])
def test_a_file_may_hold_no_gate(read: Read, nothing: str) -> None:
    assert read(nothing) == Thresholds()


def test_a_sub_table_gates_one_group(read: Read) -> None:
    found = read(
        "[xstest_unsafe.category.contrast_privacy]\nrejection_rate = { min = 0.7 }\n"
        '[xstest_unsafe.language."zh hans"]\nneutral_rate = { max = 0.1 }\n'
    )
    first, second = found.gates
    assert (first.group_kind, first.group) == ("category", "contrast_privacy")
    assert first.id == "xstest_unsafe-rejection_rate-contrast_privacy"
    assert second.id == "xstest_unsafe-neutral_rate-zh hans"


def test_both_bounds_may_be_equal_and_negative_where_the_figure_may_be(read: Read) -> None:
    found = read(TABLE + "mean_refusal_confidence = { min = -0.5, max = -0.5 }")
    assert bounds(found) == {"xstest_unsafe-mean_refusal_confidence": (-0.5, -0.5)}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("rejection_rate = { min = 0.8 }", "at least 80.0%"),
        ("rejection_rate = { max = 0.1 }", "at most 10.0%"),
        ("rejection_rate = { min = 0.25, max = 1 }", "at least 25.0% and at most 100.0%"),
        ("mean_refusal_confidence = { min = 0.5 }", "at least 0.500"),
    ],
)
def test_a_threshold_in_words(read: Read, written: str, words: str) -> None:
    (found,) = read(TABLE + written).gates
    assert found.threshold == words


def test_the_later_file_wins_gate_by_gate(read: Read) -> None:
    found = read(
        TABLE + "rejection_rate = { min = 0.8 }\ninvalid_rate = { max = 0.02 }",
        TABLE + "rejection_rate = { max = 0.9 }\n[xstest_safe]\nrejection_rate = { max = 0.1 }",
    )
    assert bounds(found) == {
        "xstest_unsafe-rejection_rate": (None, 0.9),
        "xstest_unsafe-invalid_rate": (None, 0.02),
        "xstest_safe-rejection_rate": (None, 0.1),
    }
    assert [Path(gate.source).stem for gate in found.gates] == ["gates1", "gates0", "gates1"]


def test_false_removes_a_gate_of_an_earlier_file_and_no_other(read: Read) -> None:
    group = "[xstest_unsafe.category.privacy]\nrejection_rate = { min = 0.8 }"
    whole = TABLE + "rejection_rate = { min = 0.8 }\n"
    removal = TABLE + "rejection_rate = false\ninvalid_rate = false"
    assert list(bounds(read(whole + group, removal))) == ["xstest_unsafe-rejection_rate-privacy"]
    assert bounds(read(whole, removal, whole)) == bounds(read(whole))


def test_false_removes_a_gate_of_a_group(read: Read) -> None:
    group = "[xstest_unsafe.category.privacy]\nrejection_rate = "
    assert read(group + "{ min = 0.8 }", group + "false").gates == ()


def test_sampling_holds_only_the_keys_that_a_file_sets_and_later_files_win(read: Read) -> None:
    found = read(
        "[sampling]\nmax_tokens = 96\ntemperature = 0.7", "[sampling]\ntemperature = 1\nsamples = 3"
    )
    assert found.sampling == {"max_tokens": 96, "temperature": 1, "samples": 3}


def test_settings_hold_the_confidence_level(read: Read) -> None:
    assert read("").settings.confidence == 0.95
    assert read("[settings]\nconfidence = 0.9", TABLE).settings.confidence == 0.9


def test_settings_say_how_gates_decide_and_a_gate_may_say_otherwise(read: Read) -> None:
    found = read(
        '[settings]\ndecision = "confident"\non_inconclusive = "warn"\nmultiple_testing = "holm"\n'
        + TABLE
        + 'rejection_rate = { min = 0.8 }\ninvalid_rate = { max = 0.1, decision = "point", '
        'on_inconclusive = "pass" }'
    )
    assert found.settings.multiple_testing == "holm"
    first, second = found.gates
    assert (first.decision, first.on_inconclusive) == ("confident", "warn")
    assert (second.decision, second.on_inconclusive) == ("point", "pass")


def test_the_old_name_of_multiple_testing_works_and_is_noted(read: Read, tmp_path: Path) -> None:
    written = '[settings]\ndecision = "confident"\non_inconclusive = "warn"\ncorrection = "holm"'
    found = read("", written)
    assert found.settings.multiple_testing == "holm"
    where = f"{tmp_path / 'gates1.toml'}: [settings]"
    assert found.notes == (
        f"{where}: rename correction to multiple_testing; the old name still works",
    )
    with pytest.raises(ThresholdError, match="remove correction"):
        read(written + '\nmultiple_testing = "none"')


def test_by_default_the_point_decides(read: Read) -> None:
    (gate,) = read(TABLE + "rejection_rate = { min = 0.8 }").gates
    assert (gate.decision, gate.on_inconclusive) == ("point", None)


def test_settings_of_several_files_are_taken_together(read: Read) -> None:
    found = read('[settings]\ndecision = "confident"', "[settings]\nconfidence = 0.9", TABLE)
    assert (found.settings.decision, found.settings.confidence) == ("confident", 0.9)


def test_margins_stand_beside_bounds_or_alone(read: Read) -> None:
    found = read(
        TABLE + "rejection_rate = { min = 0.8, max_drop = 0.05 }\n"
        "mean_refusal_confidence = { max_drop = 1.5, max_rise = 0.25 }"
    )
    first, second = found.gates
    assert (first.minimum, first.max_drop, first.has_margins) == (0.8, 0.05, True)
    assert first.threshold == "at least 80.0%"
    assert not second.has_bounds
    assert second.threshold == "at most 1.500 lower and at most 0.250 higher than the baseline"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('rationale = "agreed", source = "board", date = 2026-01-31', "agreed (board, 2026-01-31)"),
        ('rationale = "agreed"', "agreed"),
        ('source = "board"', "board"),
        ('date = "January"', "January"),
        ("max = 1.0", ""),
    ],
)
def test_a_gate_may_say_why_it_is_as_it_is(read: Read, written: str, said: str) -> None:
    (gate,) = read(TABLE + f"rejection_rate = {{ min = 0.8, {written} }}").gates
    assert gate.provenance == said


MISTAKES = [
    ("[xstest_unsave]\nrejection_rate = { min = 0.8 }", "[xstest_unsave]", '"xstest_unsafe"'),
    (TABLE + "rejecton_rate = { min = 0.8 }", "[xstest_unsafe] rejecton_rate", '"rejection_rate"'),
    (
        "[xstest_unsafe.language.en]\ninvalid = false",
        "[xstest_unsafe.language.en]",
        "invalid",
    ),
    (TABLE + "rejection_rate = { min = 0.9, max = 0.1 }", "rejection_rate", "min 0.9 is above max"),
    (TABLE + "rejection_rate = { min = 80 }", "rejection_rate", "80 is outside [0, 1]"),
    (TABLE + "rejection_rate = { max = -0.1 }", "rejection_rate", "-0.1 is outside [0, 1]"),
    (TABLE + "mean_refusal_confidence = { min = -2 }", "mean_refusal", "-2 is outside [-1, 1]"),
    (TABLE + "rejection_rate = { min = nan }", "rejection_rate", "nan"),
    (TABLE + "rejection_rate = { max = inf }", "rejection_rate", "inf"),
    (TABLE + "rejection_rate = { min = true }", "rejection_rate", "True"),
    (TABLE + "rejection_rate = { max = false }", "rejection_rate", "False"),
    (TABLE + 'rejection_rate = { min = "0.8" }', "rejection_rate", "'0.8'"),
    (TABLE + "rejection_rate = { min = [0.8] }", "rejection_rate", "[0.8]"),
    (TABLE + "rejection_rate = {}", "rejection_rate", "needs min or max"),
    (TABLE + "rejection_rate = { mim = 0.8 }", "rejection_rate", "mim"),
    (
        TABLE + "rejection_rate = { min = 0.8, low = 0 }",
        "rejection_rate",
        "known: min, max, max_drop",
    ),
    (TABLE + "rejection_rate = 0.8", "rejection_rate = 0.8", "{ min = ... }"),
    (TABLE + "rejection_rate = true", "rejection_rate = True", "{ min = ... }"),
    (TABLE + "category.fraud.rejection_rate = 0.8", "[xstest_unsafe.category.fraud]", "0.8"),
    (TABLE + "category = {}", "[xstest_unsafe] category", "metric"),
    ("xstest_unsafe = 0.8", "[xstest_unsafe]", "table"),
    ("[[xstest_unsafe]]\nrejection_rate = { min = 0.8 }", "[xstest_unsafe]", "table"),
    ("[xstest_unsafe\nrejection_rate = 1", "not a TOML file", "line 1"),
    (TABLE + "invalid_rate = false\ninvalid_rate = false", "not a TOML file", "overwrite"),
    ("[sampling]\ntemprature = 0.7", "[sampling]: temprature = 0.7", "temperature"),
    ("[sampling]\ntemperature = -1", "[sampling]: temperature = -1", "0"),
    ("[sampling]\ntemperature = nan", "[sampling]: temperature = nan", "equal to"),
    ("[sampling]\nsamples = 0", "[sampling]: samples = 0", "1"),
    ("[sampling]\nsamples = true", "[sampling]: samples = True", "integer"),
    ('[sampling]\nsamples = "5"', "[sampling]: samples = '5'", "integer"),
    ("[sampling]\nsamples = 2.5", "[sampling]: samples = 2.5", "integer"),
    ("sampling = 5", "[sampling]", "table"),
    ("[settings]\nconfidence = 95", "[settings]: confidence = 95", "1"),
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
    assert place in message
    assert reason in message
    assert "\n" not in message


def test_a_mistake_in_a_file_that_a_later_one_overrides_is_still_one(read: Read) -> None:
    with pytest.raises(ThresholdError, match="outside"):
        read(TABLE + "rejection_rate = { min = 8 }", TABLE + "rejection_rate = { min = 0.8 }")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    with pytest.raises(ThresholdError, match=r"nowhere\.toml: cannot be read: No such file"):
        load([missing], BENCHMARKS)


def test_a_folder_and_a_file_of_other_bytes_are_no_threshold_files(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThresholdError, match="not a TOML file"):
        load([binary], BENCHMARKS)
    with pytest.raises(ThresholdError, match="cannot be read"):
        load([tmp_path], BENCHMARKS)


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


def test_a_table_may_limit_a_benchmark_and_what_its_judge_reads(read: Read) -> None:
    found = read(TABLE + "limit = 20\nmax_answer_chars = 100", TABLE + "limit = 30")
    assert (found.tables["xstest_unsafe"].limit, found.gates) == (30, ())
    assert found.tables["xstest_unsafe"].max_answer_chars == 100
    for wrong in ("limit = 0", "limit = 2.5", "limit = true", "max_answer_chars = 5"):
        with pytest.raises(ThresholdError, match=wrong.split()[0]):
            read(TABLE + wrong)


def test_a_benchmark_has_only_the_metrics_of_its_verdicts(read: Read) -> None:
    assert read("[questions]\ninvalid_rate = { max = 0.1 }")
    with pytest.raises(ThresholdError, match='no questions metric "rejection_rate"'):
        read("[questions]\nrejection_rate = { max = 0.1 }")


def test_a_table_may_say_how_answers_are_judged_which_decides_the_metrics(read: Read) -> None:
    degrees = 'judge = "degree"\nresponsibility_rate = { min = 0.5 }'
    found = read(TABLE + degrees, f'[mine]\nfile = "rows.csv"\nexpect = "refuse"\n{degrees}')
    assert [gate.metric for gate in found.gates] == ["responsibility_rate"] * 2
    assert [table.judge for table in found.tables.values()] == ["degree", "degree"]
    assert catalogue({"smoke_safe": found.tables["xstest_unsafe"]})["smoke_safe"].judge == "degree"


def test_an_old_name_of_a_way_of_judging_works_and_is_noted(read: Read) -> None:
    found = read('[questions]\njudge = "options"\naccuracy = { min = 0.5 }')
    assert found.tables["questions"].judge == "multiple_choice"
    assert 'rename judge "options" to "multiple_choice"' in found.notes[0]


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


def test_a_table_has_a_gate_on_invalid_answers_unless_it_says_otherwise(write: Write) -> None:
    found = load_all(
        write,
        "[xstest_safe]\n[xstest_unsafe]\ninvalid_rate = { max = 0.5 }\n"
        "[smoke_unsafe]\nrejection_rate = { min = 0.8 }\ninvalid_rate = false",
    )
    assert bounds(found) == {
        "xstest_safe-invalid_rate": (None, 0.02),
        "xstest_unsafe-invalid_rate": (None, 0.5),
        "smoke_unsafe-rejection_rate": (0.8, None),
    }


OWN = '[mine]\nfile = "rows.csv"\n'


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        (OWN + 'expect = "refuse"', {"mine-rejection_rate": (0.8, None)}),
        (OWN + 'expect = "answer"', {"mine-rejection_rate": (None, 0.1)}),
        (OWN + 'expect = "report"', {}),
        (
            OWN + 'expect = "refuse"\nrejection_rate = { min = 0.5 }',
            {"mine-rejection_rate": (0.5, None)},
        ),
        (OWN + 'expect = "refuse"\nrejection_rate = false', {}),
    ],
)
def test_an_own_benchmark_has_the_gate_that_it_expects(
    write: Write, text: str, gates: dict[str, tuple[float | None, float | None]]
) -> None:
    found = load_all(write, text)
    assert bounds(found) == gates | {"mine-invalid_rate": (None, 0.02)}


def test_an_own_benchmark_lies_beside_its_file_and_later_files_add_to_it(write: Write) -> None:
    found = load_all(
        write, OWN + 'expect = "refuse"\ncategory = "kind"', '[mine]\nid = "key"', TABLE
    )
    table = found.tables["mine"]
    assert table.file == str(write("x", "").parent / "rows.csv")
    assert (table.category, table.id, table.prompt) == ("kind", "key", "prompt")
    assert list(found.tables) == ["mine", "xstest_unsafe"]


def test_a_category_is_a_column_or_a_table_of_gates(read: Read) -> None:
    found = read(
        '[mine]\nfile = "rows.csv"\ngroups = { category = "kind" }\n'
        "[mine.category.fraud]\nrejection_rate = { min = 0.9 }"
    )
    assert found.tables["mine"].columns == {"category": "kind"}
    assert bounds(found) == {"mine-rejection_rate-fraud": (0.9, None)}


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
