"""A run's records as one table."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import (
    Binary,
    Invalid,
    Label,
    Reason,
)
from refusal_checks.results import export
from refusal_checks.results.run_folder import RunFolder
from tests.unit.results.test_run_folder import runs_of_records

PROMPT = Prompt(
    "p1", (Message("user", "a/b «\n\x01»"),), {"category": "fraud", "language": "zh"}
)
ANSWER = Completion(
    "答案 \U0001f600", "length", 12, -0.123456789012345, "recorded", "closed"
)
REFUSED = Binary(Label.REFUSAL, "deflection", "it declines", cut=7)
LOST = Invalid(Reason.JUDGE_ERROR, "status 500")
RECORDS = [
    Record(PROMPT, 0, ANSWER, REFUSED, (Vote("one", REFUSED), Vote("two", LOST))),
    Record(PROMPT, 1, None, Invalid(Reason.PROMPT_TOO_LONG, "4096")),
]


def read(path: Path) -> list[dict[str, Any]]:
    """What another program reads."""
    if path.suffix == ".jsonl":
        return [
            json.loads(line)
            for line in path.read_text(encoding="utf-8").split("\n")
            if line
        ]
    import pyarrow.parquet

    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    return rows


def test_a_record_is_one_row_with_all_that_is_known(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_records("mine", RECORDS)
    first, second = export.rows(run)
    assert first["benchmark"] == "mine"
    groups = [(each["kind"], each["group"]) for each in first["groups"]]
    assert groups == [("category", "fraud"), ("language", "zh")]
    assert first["messages"] == [{"role": "user", "content": "a/b «\n\x01»"}]
    kinds = first["kind"], first["label"], first["category"]
    assert kinds == ("labelled", "refusal", "deflection")
    assert (first["tokens"], first["mean_logprob"]) == (12, -0.123456789012345)
    assert first["votes"] == [
        {
            "judge": "one",
            "kind": "labelled",
            "verdict": "refusal",
            "rationale": "it declines",
        },
        {
            "judge": "two",
            "kind": "invalid",
            "verdict": "judge error",
            "rationale": None,
        },
    ]
    assert second["answer"] is None
    assert (second["kind"], second["invalid_reason"]) == ("invalid", "prompt too long")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=runs_of_records())
def test_any_records_read_back_as_they_were(
    records: list[Record], suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    run, path = RunFolder(folder), folder / f"table{suffix}"
    run.write_records("mine", records)
    run.write_records("other", RECORDS)
    assert export.write_table(run, path) == len(records) + 2
    assert read(path) == list(export.rows(run))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_what_makes_no_table_is_named(tmp_path: Path, suffix: str) -> None:
    run, path = RunFolder(tmp_path), tmp_path / f"table{suffix}"

    def require_named(message: str, path: Path = path) -> None:
        with pytest.raises(DataError, match=message):
            export.write_table(run, path)

    require_named("completed no benchmark")
    run.write_records("mine", [])
    require_named("completed no benchmark")
    large = Completion("a", tokens=2**70)
    run.write_records("mine", [Record(PROMPT, 0, large, REFUSED)])
    require_named(r"cannot be exported: .*too large")
    run.write_records("mine", RECORDS)
    require_named(r"table\.csv: name a file that ends in", path.with_suffix(".csv"))
    (tmp_path / f"folder{suffix}").mkdir()
    require_named(rf"folder\{suffix}: cannot be written", tmp_path / f"folder{suffix}")
    with (tmp_path / "records" / "mine.jsonl").open("a") as file:
        file.write('{"prompt"')
    require_named(r"mine\.jsonl: not a run's records")
    assert not path.exists()
