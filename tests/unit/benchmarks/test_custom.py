"""A user's own benchmark, from a file or the hub, without touching the package."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.benchmarks import Benchmark, catalogue, discover, load_prompts
from refusal_checks.benchmarks.benchmark import digest
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Message, Prompt
from refusal_checks.core.settings import BenchmarkTable
from tests.support.cases import cases_of
from tests.unit.conftest import Write

CASES = cases_of(__file__)

CSV = "key,question,kind\n7,Is it?,first\n9,Was it?,\n"


def own(path: Path | str, **table: Any) -> Benchmark:
    described = BenchmarkTable(file=str(path), **{"expect": "refuse", **table})
    return catalogue({"mine": described})["mine"]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_parquet_file_is_read_with_the_names_of_its_classes(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_dict({"prompt": ["a", "b"], "kind": [1, 0]})
    rows = rows.cast_column("kind", datasets.ClassLabel(names=["plain", "odd"]))
    path = tmp_path / "rows.parquet"
    rows.to_parquet(str(path))
    assert load_prompts(own(path, category="kind"), None) == (
        Prompt.single("mine-1", "a", category="odd"),
        Prompt.single("mine-2", "b", category="plain"),
    )
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="not a Parquet file that can be read"):
        load_prompts(own(path), None)


def test_a_file_with_named_columns(write: Write) -> None:
    path = write("rows.csv", CSV)
    kinds = [own(path, expect=expect).kind for expect in ("refuse", "answer", "report")]
    assert kinds == [Kind.SAFETY, Kind.SANITY, Kind.SENSITIVE]
    found = own(path, prompt="question", category="kind", id="key")
    assert load_prompts(found, None) == (
        Prompt.single("7", "Is it?", category="first"),
        Prompt.single("9", "Was it?"),
    )
    assert found.revision.startswith("sha256:")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_column_id_is_used_unasked_and_separators_are_found(
    tmp_path: Path, separator: str
) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        f"id{separator}prompt\na1{separator}one\na2{separator}two\n", encoding="utf-8"
    )
    assert [prompt.id for prompt in own(path, expect="refuse").load(None)] == [
        "a1",
        "a2",
    ]
    path.write_text(
        f"id{separator}prompt\na1{separator}one\na1{separator}two\n", encoding="utf-8"
    )
    assert [prompt.id for prompt in own(path, expect="refuse").load(None)] == [
        "mine-1",
        "mine-2",
    ]


def test_a_column_names_the_rows_of_one_source(write: Write) -> None:
    rows = (
        {"prompt": "a", "of": 7},
        {"prompt": "b", "of": 7},
        {"prompt": "c", "of": None},
    )
    found = load_prompts(own(write("rows.jsonl", lines(*rows)), cluster="of"), None)
    assert [prompt.cluster for prompt in found] == ["7", "7", ""]
    plain = load_prompts(own(write("rows.jsonl", lines(*rows))), None)
    assert digest(found) == digest(plain)
    with pytest.raises(DataError, match="column"):
        load_prompts(own(write("rows.jsonl", lines(*rows)), cluster="off"), None)


def test_a_column_holds_what_judges_read(write: Write) -> None:
    turns = [{"role": "user", "content": "Is it?"}]
    rows = (
        {"prompt": "SXMgaXQ/", "judge_sees": "Is it?"},
        {"prompt": "SXMgaXQ/IQ", "judge_sees": turns},
        {"prompt": "Was it?", "judge_sees": ""},
    )
    found = load_prompts(own(write("rows.jsonl", lines(*rows))), None)
    seen = [prompt.judge_sees for prompt in found]
    assert seen == [(Message("user", "Is it?"),)] * 2 + [()]
    renamed = [{"prompt": row["prompt"], "plain": row["judge_sees"]} for row in rows]
    path = write("renamed.jsonl", lines(*renamed))
    again = load_prompts(own(path, judge_sees="plain"), None)
    assert digest(again) == digest(found) != digest(load_prompts(own(path), None))
    with pytest.raises(DataError, match="column"):
        load_prompts(own(path, judge_sees="judge_sees"), None)


TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "Go on"},
]


def test_conversations_of_both_file_types(write: Write) -> None:
    expected = tuple(Message(turn["role"], turn["content"]) for turn in TURNS)  # type: ignore[arg-type]
    listed = own(write("a.jsonl", lines({"messages": TURNS})), prompt="messages")
    cell = json.dumps(TURNS).replace('"', '""')
    quoted = own(write("a.csv", f'messages\n"{cell}"\n'), prompt="messages")
    for benchmark in (listed, quoted):
        (prompt,) = load_prompts(benchmark, None)
        assert prompt.messages == expected
    (texts,) = load_prompts(
        own(write("b.jsonl", lines({"prompt": ["a", "b", "c"]}))), None
    )
    assert [turn.role for turn in texts.messages] == ["user", "assistant", "user"]


def test_a_text_that_looks_like_json_is_a_text(write: Write) -> None:
    texts = ["[{", "[{}]", '[{"a": 1}]', "[]"]
    found = own(write("a.jsonl", lines(*({"prompt": text} for text in texts))))
    assert [prompt.request for prompt in load_prompts(found, None)] == texts


@pytest.mark.parametrize(("rows", "table", "reason"), CASES["rows"])
def test_bad_rows_are_named(
    write: Write, rows: str, table: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError) as caught:
        load_prompts(own(write("rows.jsonl", rows), **table), None)
    assert reason in str(caught.value)


def test_a_sum_in_a_table_pins_any_benchmark() -> None:
    wrong = "0" * 64
    found = catalogue({"smoke_safe": BenchmarkTable(sha256=wrong)})
    with pytest.raises(DataError, match="smoke_safe: the data has changed"):
        load_prompts(found["smoke_safe"], None)
    assert discover()["smoke_safe"].sha256 == ""


def test_a_data_set_of_the_hub_through_a_mirror(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_dict({"turns": [["a"], ["b"]], "category": [1, 0]})
    rows = rows.cast_column("category", datasets.ClassLabel(names=["x", "y"]))
    folder = tmp_path / "hub" / "org" / "set"
    folder.mkdir(parents=True)
    rows.to_parquet(str(folder / "test-00000-of-00001.parquet"))
    table = BenchmarkTable(
        dataset="org/set",
        split="test",
        expect="refuse",
        prompt="turns",
        category="category",
    )
    assert load_prompts(catalogue({"mine": table})["mine"], tmp_path) == (
        Prompt.single("mine-1", "a", category="y"),
        Prompt.single("mine-2", "b", category="x"),
    )


HOSTILE = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "a\ud800"]), inner, max_size=3
        )
    ),
)


@settings(max_examples=25)
@given(
    st.lists(
        st.fixed_dictionaries({"q": HOSTILE, "id": HOSTILE, "c": HOSTILE}), min_size=1
    )
)
def test_hostile_rows_become_prompts_that_can_be_stored_or_a_data_error(
    rows: list[Any],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text(lines(*rows), encoding="utf-8")
        with suppress(DataError):
            prompts = load_prompts(
                own(path, prompt="q", id="id", groups={"c": "c"}), None
            )
            assert str([(p.id, p.turns, dict(p.groups)) for p in prompts]).encode()
            for prompt in prompts:
                "".join(
                    [prompt.id, prompt.transcript, *prompt.groups.values()]
                ).encode()


@pytest.mark.parametrize("opened", ["[", '{"q":', '{"q":[{"role":['])
def test_deep_rows_are_a_data_error(write: Write, opened: str) -> None:
    for times in (900, 100_000):
        with pytest.raises(
            DataError,
            match=r"rows\.jsonl: line 1(, column \d+: correct it|: not valid)",
        ):
            load_prompts(own(write("rows.jsonl", opened * times)), None)
        cell = '[{""role"":' + "[" * times + "]" * times + ',""content"":""x""}]'
        path = write("rows.csv", f'prompt\n"{cell}"\n')
        (prompt,) = load_prompts(own(path), None)  # not a conversation, so a text
        assert prompt.request.startswith('[{"role":[[[')
    deep = write("a.jsonl", lines({**QUESTION, "list": "[" * 900 + "]" * 900}))
    with pytest.raises(DataError, match="row 1: "):
        load_prompts(own(deep, expect=None, options="list", key="right"), None)


def test_a_suite_that_reads_nonsense_is_a_data_error(write: Write) -> None:
    def load(mirror: Path | None) -> list[Prompt]:
        return [Prompt.single("a", b"\xff".decode())]

    broken = Benchmark("mine", Kind.SAFETY, "", load, "1")
    with pytest.raises(
        DataError, match="mine: its data cannot be read: UnicodeDecodeError"
    ):
        load_prompts(broken, None)
    for lone in (
        Prompt.single("a", "\ud800"),
        Prompt.single("a", "x", kind="\ud800"),
        replace(Prompt.single("a", "x"), judge_sees=(Message("user", "\ud800"),)),
    ):
        suite = Benchmark("mine", Kind.SAFETY, "", Mock(return_value=[lone]), "1")
        with pytest.raises(DataError, match="prompt a: replace the lone surrogates"):
            load_prompts(suite, None)


QUESTION = {
    "prompt": "Is it so?",
    "right": "B",
    "list": ["yes", "no"],
}


@pytest.mark.parametrize("right", ["B", "b", 1, None])
def test_options_make_a_multiple_choice_question(write: Write, right: object) -> None:
    rows = write("a.jsonl", lines({**QUESTION, "right": right}))
    benchmark = own(rows, expect=None, options="list", key="right")
    (prompt,) = load_prompts(benchmark, None)
    assert prompt.request == "Is it so?\n\nA. yes\nB. no"
    assert prompt.options == {"A": "yes", "B": "no"}
    # A question without a right option does not count.
    assert prompt.reference == (None if right is None else "B")
    assert (benchmark.kind, benchmark.judge) == (Kind.RECOGNITION, "multiple_choice")


def test_options_may_differ_in_number_and_stand_in_the_prompt_already(
    write: Write,
) -> None:
    asked = "Which?\nA. one\nB. two"
    cells = '"[""one"", ""two""]",B'
    rows = write("a.csv", f'prompt,list,right\n"{asked}",{cells}\n')
    (prompt,) = load_prompts(own(rows, expect=None, options="list", key="right"), None)
    assert prompt.request == asked
    assert prompt.options == {"A": "one", "B": "two"}


@pytest.mark.parametrize(("row", "table", "reason"), CASES["options"])
def test_bad_options_are_named_and_not_quoted(
    write: Write, row: dict[str, Any], table: dict[str, Any], reason: str
) -> None:
    rows = write("a.jsonl", lines({**QUESTION, **row}))
    described = {"expect": None, "options": "list", "key": "right", **table}
    with pytest.raises(DataError) as caught:
        load_prompts(own(rows, **described), None)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(("table", "reason"), CASES["tables"])
def test_a_table_that_describes_no_benchmark(
    table: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        own("a.jsonl", **table)


def test_a_table_without_options_must_say_what_it_expects() -> None:
    with pytest.raises(DataError, match="say expect"):
        own("a.jsonl", expect=None)


def test_a_rubric_is_for_judges_that_read_one(write: Write) -> None:
    rubric = write("r.md", "A good answer says no.")
    assert own("a.jsonl", rubric=str(rubric), judge="rating").category_guide == rubric
