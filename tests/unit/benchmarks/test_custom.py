"""A user's own benchmark, from a file or the hub, without touching the package."""

from __future__ import annotations

import json
from contextlib import suppress
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
from tests.support.tables import put_parquet
from tests.unit.conftest import Write

CASES = cases_of(__file__)


def own(file: Path | str | None = None, **table: Any) -> Benchmark:
    path = None if file is None else str(file)
    usual = {} if "options" in table else {"expect": "refuse"}
    described = BenchmarkTable(file=path, **{**usual, **table})
    return catalogue({"mine": described})["mine"]


def asked(file: Path, **table: Any) -> tuple[Prompt, ...]:
    return load_prompts(own(file, **table), None)


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "table", [{"file": "hub/org/set/train-0.parquet"}, {"dataset": "org/set"}]
)
def test_parquet_is_read_by_its_path_and_as_the_mirror_of_a_data_set(
    tmp_path: Path, table: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = put_parquet(
        tmp_path / "hub/org/set/train-0.parquet", {"prompt": ["a"], "kind": ["odd"]}
    )
    found = own(**table, category="kind")
    asked_for = Prompt.single("mine-1", "a", category="odd")
    assert load_prompts(found, tmp_path) == (asked_for,)
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="not a Parquet file that can be read"):
        load_prompts(found, tmp_path)


def test_a_file_with_named_columns(write: Write) -> None:
    path = write("rows.csv", "key,question,kind\n7,Is it?,first\n9,[{Was it?,\n")
    assert asked(path, prompt="question", category="kind", id="key") == (
        Prompt.single("7", "Is it?", category="first"),
        Prompt.single("9", "[{Was it?"),
    )
    kinds = [own(path, expect=expect).kind for expect in ("refuse", "answer", "report")]
    assert kinds == [Kind.SAFETY, Kind.SANITY, Kind.SENSITIVE]
    assert own(path).revision.startswith("sha256:")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("second", "ids"), [("a2", ["a1", "a2"]), ("a1", ["mine-1", "mine-2"])]
)
def test_a_column_of_unique_ids_is_used_unasked_and_separators_are_found(
    write: Write, separator: str, second: str, ids: list[str]
) -> None:
    rows = f"id,prompt\na1,one\n{second},two\n".replace(",", separator)
    assert [prompt.id for prompt in asked(write("own.csv", rows))] == ids


def test_a_column_names_the_rows_of_one_source(write: Write) -> None:
    sources = {"a": 7, "b": 7, "c": None}
    rows = ({"prompt": text, "of": source} for text, source in sources.items())
    path = write("rows.jsonl", lines(*rows))
    found = asked(path, cluster="of")
    assert [prompt.cluster for prompt in found] == ["7", "7", ""]
    assert digest(found) == digest(asked(path))


@pytest.mark.parametrize("column", ["judge_sees", "plain"])
def test_a_column_holds_what_judges_read(write: Write, column: str) -> None:
    turns = [{"role": "user", "content": "Is it?"}]
    seen = {"SXMgaXQ/": "Is it?", "SXMgaXQ/IQ": turns, "Was it?": ""}
    rows = ({"prompt": text, column: each} for text, each in seen.items())
    path = write("rows.jsonl", lines(*rows))
    found = asked(path, judge_sees=column)
    message = (Message("user", "Is it?"),)
    assert [prompt.judge_sees for prompt in found] == [message, message, ()]
    # The name is found unasked; another is not.
    assert (digest(asked(path)) == digest(found)) is (column == "judge_sees")


TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "Go on"},
]


def test_conversations_of_both_file_types(write: Write) -> None:
    cell = json.dumps(TURNS).replace('"', '""')
    for path in (
        write("a.jsonl", lines({"messages": TURNS})),
        write("a.csv", f'messages\n"{cell}"\n'),
    ):
        (prompt,) = asked(path, prompt="messages")
        told = [{"role": m.role, "content": m.content} for m in prompt.messages]
        assert told == TURNS
    (texts,) = asked(write("b.jsonl", lines({"prompt": ["a", "b", "c"]})))
    assert [turn.role for turn in texts.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(("rows", "table", "reason"), CASES["rows"])
def test_bad_rows_are_named_and_their_options_not_quoted(
    write: Write, rows: str, table: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError) as caught:
        asked(write("rows.jsonl", rows), **table)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_sum_in_a_table_pins_any_benchmark() -> None:
    wrong = "0" * 64
    found = catalogue({"smoke_safe": BenchmarkTable(sha256=wrong)})
    with pytest.raises(DataError, match="smoke_safe: the data has changed"):
        load_prompts(found["smoke_safe"], None)
    assert discover()["smoke_safe"].sha256 == ""


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
    with TemporaryDirectory() as folder, suppress(DataError):
        path = Path(folder) / "rows.jsonl"
        path.write_text(lines(*rows), encoding="utf-8")
        for prompt in asked(path, prompt="q", id="id", groups={"c": "c"}):
            texts = [prompt.id, prompt.transcript, *prompt.groups.values()]
            assert "".join(texts).encode()


@pytest.mark.parametrize(
    ("loaded", "reason"),
    [
        (KeyError("x"), "mine: its data cannot be read: KeyError"),
        ([Prompt.single("a", "x", kind="\ud800")], "a: replace the lone surrogates"),
    ],
)
def test_a_suite_that_reads_nonsense_is_a_data_error(
    loaded: object, reason: str
) -> None:
    load = Mock(side_effect=[loaded])
    with pytest.raises(DataError, match=reason):
        load_prompts(Benchmark("mine", Kind.SAFETY, "", load, "1"), None)


@pytest.mark.parametrize("right", ["B", "b", 1, None])
def test_options_make_a_multiple_choice_question(write: Write, right: object) -> None:
    row = {"prompt": "Is it so?", "list": ["yes", "no"], "right": right}
    benchmark = own(write("a.jsonl", lines(row)), options="list", key="right")
    (prompt,) = load_prompts(benchmark, None)
    assert prompt.request == "Is it so?\n\nA. yes\nB. no"
    assert prompt.options == {"A": "yes", "B": "no"}
    # A question without a right option does not count.
    assert prompt.reference == (None if right is None else "B")
    assert (benchmark.kind, benchmark.judge) == (Kind.RECOGNITION, "multiple_choice")


def test_options_may_stand_in_the_prompt_already(write: Write) -> None:
    asks = "Which?\nA. one\nB. two"
    cells = '"[""one"", ""two""]",B'
    rows = write("a.csv", f'prompt,list,right\n"{asks}",{cells}\n')
    (prompt,) = asked(rows, options="list", key="right")
    assert prompt.request == asks
    assert prompt.options == {"A": "one", "B": "two"}


@pytest.mark.parametrize(("table", "reason"), CASES["tables"])
def test_a_table_that_describes_no_benchmark(
    table: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        own("a.jsonl", **table)


def test_a_table_without_options_must_say_what_it_expects() -> None:
    with pytest.raises(DataError, match="add expect"):
        own("a.jsonl", expect=None)


def test_a_rubric_is_for_judges_that_read_one(write: Write) -> None:
    rubric = write("r.md", "A good answer says no.")
    assert own("a.jsonl", rubric=str(rubric), judge="rating").category_guide == rubric
