"""Export a run's records as one table with a row per answer."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.files import replacing
from refusal_checks.core.records import Record, is_disputed
from refusal_checks.results.run_folder import RunFolder

Row = dict[str, Any]


_COLUMNS = {
    "large_string": """
        benchmark prompt_id reference answer finish_reason reasoning recorded_label kind verdict
        label category option read_by rationale invalid_reason invalid_detail
    """,
    "float64": """
        mean_logprob refusal_share partial_share probability moral rating refused specific
        convincing score
    """,
    "int64": "sample tokens degree cut escaped",
    "bool": "correct unfinished",
}
"""Names of the columns that hold one value, by type."""

_EMPTY = dict.fromkeys(" ".join(_COLUMNS.values()).split())

_LISTS = {
    "groups": "kind group",
    "messages": "role content",
    "votes": "judge kind verdict rationale",
}
"""Keys of the texts in columns that hold lists of objects."""

COLUMNS = (*_EMPTY, *_LISTS)  # names of all columns


def rows(run: RunFolder) -> Iterator[Row]:
    of_all: Row = {"unfinished": run.is_unfinished}
    for benchmark in run.benchmarks:
        for record in run.records(benchmark):
            yield _row(record) | of_all | {"benchmark": benchmark}


def write_table(run: RunFolder, path: Path) -> int:
    import datasets  # takes seconds; no other command needs it
    from datasets import Features, List, Value

    writers: Mapping[str, Callable[[datasets.Dataset, Path], object]] = {
        ".jsonl": lambda table, draft: table.to_json(
            draft, double_precision=15, force_ascii=False
        ),
        ".parquet": lambda table, draft: table.to_parquet(draft),
    }
    if path.suffix not in writers:
        raise DataError(f"{path}: name a file that ends in {' or '.join(writers)}")
    if next(rows(run), None) is None:
        raise DataError(
            f"{run.path}: this run completed no benchmark, so it has no records; name another run"
        )
    datasets.disable_progress_bars()
    text = Value("large_string")
    columns: dict[str, Value | List] = {}
    for form, names in _COLUMNS.items():
        columns |= {name: Value(form) for name in names.split()}
    for name, keys in _LISTS.items():
        columns[name] = List(dict.fromkeys(keys.split(), text))
    with TemporaryDirectory() as cache:  # rows pass through a file, not through memory
        try:
            table = datasets.Dataset.from_generator(
                rows,
                gen_kwargs={"run": run},
                features=Features(columns),
                cache_dir=cache,
            )
        except datasets.exceptions.DatasetGenerationError as fault:
            if isinstance(fault.__cause__, DataError):
                raise fault.__cause__ from None
            raise DataError(
                f"{run.path}: cannot be exported: {fault.__cause__ or fault}"
            ) from None
        try:
            with replacing(path) as draft:
                writers[path.suffix](table, draft)
        except OSError as fault:
            raise DataError(
                f"{path}: cannot be written: {fault.strerror or fault}"
            ) from None
        return len(table)


def _row(record: Record) -> Row:
    prompt, answer = record.prompt, record.completion
    return _EMPTY | {
        "prompt_id": prompt.id,
        "groups": [
            {"kind": kind, "group": group} for kind, group in prompt.groups.items()
        ],
        "messages": [asdict(turn) for turn in prompt.messages],
        "reference": prompt.reference,
        "sample": record.sample,
        "answer": answer and answer.text,
        "finish_reason": answer and answer.finish_reason,
        "tokens": answer and answer.tokens,
        "mean_logprob": answer and answer.mean_logprob,
        "reasoning": answer and answer.reasoning,
        "recorded_label": answer and answer.label,
        **record.judgement.cells(),
        "votes": [
            {
                "judge": vote.judge,
                "kind": vote.judgement.kind,
                "verdict": vote.judgement.verdict,
                "rationale": vote.judgement.cells().get("rationale"),
            }
            for vote in record.votes
        ],
    }


DISAGREEMENTS = (
    "disagreements"  # the folder of a run's folder with a file per benchmark
)


def disagreements(benchmark: str, records: Iterable[Record]) -> Iterator[str]:
    """Yield a benchmark's disputed answers as JSON lines; texts are not escaped."""
    for record in records:
        if not is_disputed(record.votes):
            continue
        row = {
            "benchmark": benchmark,
            "prompt_id": record.prompt.id,
            "sample": record.sample,
            "verdict": record.judgement.verdict,
            "votes": [
                {
                    "judge": vote.judge,
                    "verdict": vote.judgement.verdict,
                    "rationale": vote.judgement.rationale,
                }
                for vote in record.votes
            ],
            "prompt": record.prompt.transcript,
            "answer": record.completion.text if record.completion else "",
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
