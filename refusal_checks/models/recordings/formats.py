"""Files of recorded answers, as other tools write them."""

import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import WHOLE, read_json, rows_in
from refusal_checks.core.errors import DataError
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import brief
from refusal_checks.models.client.reasoning import split_reasoning, written
from refusal_checks.models.client.server_errors import MALFORMED

Row = dict[str, Any]
"""A prompt and its answers, by column: ``prompt``, ``completion`` (a text, None, or a list of
these), perhaps ``label``, and whatever else the file says."""

_JSONL = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Rows:
    """Rows that are read from their file each time one goes through them, one at a time."""

    read: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())


NEVER_ASKED = "never asked"
"""The column, which no file has, of rows whose answer is missing because nothing was sent."""

PROMPTS = (
    "prompt", "question", "instruction", "request", "query", "goal", "behavior", "Behavior",
    "input", "text",
)  # fmt: skip
"""Names under which tools keep the prompt that a benchmark sent, the most telling first."""


@dataclass(frozen=True)
class Document:
    """A file, read once for all formats."""

    path: Path
    may_be_partial: bool = (
        False  # if so, a log that was not finished is read as far as it goes
    )

    @cached_property
    def value(self) -> Any:
        """The content of a ``.json`` file, the first row of a table; None of an archive."""
        if self.path.suffix == ".json":
            return read_json(self.path)
        return None if self.path.suffix == ".eval" else next(rows_in(self.path))

    def rows_at(self, *names: str, having: Sequence[str] = ()) -> list[Any] | None:
        """The objects listed in a ``.json`` file at the end of nested objects' names.

        None unless there are some, and all have these fields.
        """
        value = self.value if self.path.suffix == ".json" else None
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        rows = value if isinstance(value, list) else []
        are_rows = all(
            isinstance(row, Mapping) and set(having) <= row.keys() for row in rows
        )
        return rows if rows and are_rows else None


def prompt_in(values: Any) -> str | None:
    """The prompt among a tool's variables or columns, by its usual names; None if unclear."""
    if not isinstance(values, Mapping):
        return values if isinstance(values, str) else None
    named = (values.get(name) for name in PROMPTS)
    texts = [value for value in values.values() if isinstance(value, str)]
    found = next((value for value in named if isinstance(value, str)), None)
    return found if found is not None or len(texts) != 1 else texts[0]


def _number_in(values: Any) -> Any:
    """A prompt's number in its data set, among a tool's variables or columns."""
    names = ("index", "Index") if isinstance(values, Mapping) else ()
    return next((values[name] for name in names if values.get(name) is not None), None)


_RATIO = 64
"""How many times its own size a large log may unpack to; Inspect's shrink to a twentieth."""

_START, _HEADER = "_journal/start.json", "header.json"
"""What a log begins with, and what is written once an evaluation has ended."""

_BULK = ("attachments", "events", "events_data", "messages", "store")
"""Parts of a sample that say nothing of its answers and take most of the room."""


def inspect_log(document: Document) -> Iterable[Row] | None:
    """Inspect's logs: ``.eval`` files, and JSON (inspect.aisi.org.uk, log format 2).

    A sample's prompt is its last user message, its epochs are the prompt's samples. Answers are the
    text parts of the output's choices, without reasoning. A sample that ended in an error has no
    answer. A log that did not end well may lack samples or epochs, and is refused unless a part is
    wanted. Scores are labels by name: ``columns = { label = "scores.NAME.value" }``.
    """
    path = document.path
    if path.suffix == ".eval":
        _require_success(document, _status(path))
        return Rows(partial(_samples, path))
    value = document.value
    if (
        path.suffix != ".json"
        or not isinstance(value, Mapping)
        or not {"eval", "plan"} <= set(value)
    ):
        return None
    _require_success(document, value.get("status"))
    return sorted(
        _samples(path, value.get("samples") or []), key=lambda one: one.get("epoch", 1)
    )


def _require_success(document: Document, status: Any) -> None:
    """Raise DataError unless an evaluation has ended well; a log may not say how it ended."""
    if status not in (None, "success") and not document.may_be_partial:
        raise DataError(
            f"{document.path}: finish the log with `inspect eval-retry` and name the new one, or "
            f"gate what it has with --set recording.partial=true: its status is {brief(status)}"
        )


def _status(path: Path) -> Any:
    """How the evaluation of an ``.eval`` file ended; None if it does not say so."""
    with _archive(path) as archive:
        names = set(archive.namelist())
        if _HEADER not in names:
            return "started" if _START in names else None
        header = archive.getinfo(_HEADER)
        if header.file_size > WHOLE:
            raise ValueError(f"its {_HEADER} is too large")
        facts = parse_json(_content(archive, header))
        return facts.get("status") if isinstance(facts, dict) else None


def _samples(path: Path, samples: Iterable[Any] | None = None) -> Iterator[Row]:
    row = None
    for sample in _unpacked(path) if samples is None else samples:
        try:
            row = _sample(sample)
        except (AttributeError, KeyError, TypeError, IndexError):
            raise DataError(f"{path}: a sample is not as Inspect writes it") from None
        yield row
    if row is None:
        raise DataError(
            f"{path}: no samples: was the log written with --no-log-samples?"
        )


def _unpacked(path: Path) -> Iterator[Any]:
    with _archive(path) as archive:
        entries = [
            one for one in archive.infolist() if one.filename.startswith("samples/")
        ]
        sizes = [entry.file_size for entry in entries]
        most = max(WHOLE, _RATIO * path.stat().st_size)
        if sum(sizes) > most or max(sizes, default=0) > WHOLE:
            raise DataError(
                f"{path}: split the log: its samples unpack to more than {most >> 20} MiB, or "
                f"one of them to more than {WHOLE >> 20} MiB"
            )
        for entry in sorted(entries, key=_epoch):
            yield parse_json(_content(archive, entry), unique=True)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An ``.eval`` file; what is wrong with it is a DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        LZMAError,
        EOFError,
        ValueError,
        RuntimeError,
    ) as fault:
        # A RuntimeError if it is encrypted or packed otherwise.
        raise DataError(
            f"{path}: convert it with `inspect log convert --to json`: not an .eval file that can "
            f"be read: {fault}"
        ) from None


def _epoch(entry: zipfile.ZipInfo) -> int:
    found = re.search(r"_epoch_(\d{1,9})\.json$", entry.filename)
    return int(found[1]) if found else 1


_ZSTANDARD = (
    93  # the method of compression that Inspect uses and Python knows from 3.14 on
)


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(entry)
    except NotImplementedError:
        if entry.compress_type != _ZSTANDARD or archive.fp is None:
            raise
    from pyarrow import (
        input_stream,
    )  # takes long to import; the datasets library brings it

    archive.fp.seek(entry.header_offset + 26)
    archive.fp.seek(sum(struct.unpack("<HH", archive.fp.read(4))), 1)
    packed = archive.fp.read(entry.compress_size)
    with input_stream(BytesIO(packed), compression="zstd") as stream:
        content: bytes = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {entry.filename}")
    return content


def _sample(sample: Mapping[str, Any]) -> Row:
    attached = sample.get("attachments") or {}

    def text(content: Any) -> str | None:
        """The text of a message: a text, or a list of parts of which the texts count."""
        if content is not None and not isinstance(content, str):
            parts = content if isinstance(content, list) else [content]
            texts = [
                part.get("text") or "" for part in parts if part.get("type") == "text"
            ]
            content = "\n".join(map(str, texts)) or None
        # A long one may be kept apart, under its key.
        whole: str | None = content
        if whole and whole.startswith("attachment://"):
            whole = attached.get(whole.removeprefix("attachment://"), whole)
        return whole

    asked = sample["input"]
    if isinstance(asked, list):
        asked = [turn["content"] for turn in asked if turn["role"] == "user"][-1]
    choices = (
        [] if sample.get("error") else (sample.get("output") or {}).get("choices") or []
    )
    answers = [text(choice["message"]["content"]) for choice in choices]
    kept = {name: value for name, value in sample.items() if name not in _BULK}
    return {**kept, "prompt": text(asked), "completion": answers or None}


def lm_eval(document: Document) -> Iterable[Row] | None:
    """lm-evaluation-harness's samples: ``samples_TASK_DATE.jsonl``, by ``--log_samples``.

    The prompt is the document's own, without the examples and templates around it, if it has one.
    Answers are the model's whole words (``resps``), not what a task's filter left of them; a
    document that several filters read counts once.
    """
    first = document.value if document.path.suffix in _JSONL else {}
    if not {"doc_id", "doc"} <= set(first) or not {"resps", "filtered_resps"} & set(
        first
    ):
        return None
    return Rows(partial(_documents, document.path, first.get("filter")))


def _documents(path: Path, read_by: Any) -> Iterator[Row]:
    for number, row in enumerate(rows_in(path), 1):
        if row.get("filter") != read_by:
            continue
        answers = list(_flat(row.get("resps") or row.get("filtered_resps")))
        if any(
            answer is not None and not isinstance(answer, str) for answer in answers
        ):
            raise DataError(
                f"{path}: row {number}: log a task of output_type generate_until: this "
                "one compares probabilities (loglikelihood) and records no answer in words"
            )
        sent = (
            text for text in _flat(row.get("arguments"), True) if isinstance(text, str)
        )
        prompt = prompt_in(row.get("doc")) or next(sent, None)
        own = {"prompt": prompt, "completion": answers or None}
        yield {**row, "index": _number_in(row.get("doc")), **own}


def _flat(value: Any, in_objects: bool = False) -> Iterator[Any]:
    """The values in nested lists, and in objects if wanted, in order."""
    if isinstance(value, list) or (in_objects and isinstance(value, Mapping)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _flat(one, in_objects)
    else:
        yield value


def promptfoo(document: Document) -> list[Row] | None:
    """Promptfoo's results: ``promptfoo eval -o results.json`` (versions 2 and 3).

    The prompt is the test's variable of that name (or its only text), else the text that was sent.
    A file with several providers or prompt templates needs ``where = { provider = ... }`` or
    ``where = { promptIdx = ... }``.
    """
    found = document.rows_at("results", "results") or document.rows_at("results")
    if not found or not any("response" in row for row in found):
        return None
    rows = []
    for row in found:
        sent, case, provider = (
            row.get("prompt"),
            row.get("testCase"),
            row.get("provider"),
        )
        variables = row.get("vars") or (
            case.get("vars") if isinstance(case, Mapping) else None
        )
        raw = sent.get("raw") if isinstance(sent, Mapping) else sent
        if isinstance(provider, Mapping):
            provider = provider.get("label") or provider.get("id")
        response = row.get("response")  # a call that failed has none
        answer = response.get("output") if isinstance(response, Mapping) else None
        if answer is not None and not isinstance(answer, str):
            answer = json.dumps(answer, ensure_ascii=False)
        own = {
            "prompt": prompt_in(variables) or raw,
            "provider": provider,
            "completion": answer,
        }
        rows.append({**row, "index": _number_in(variables), **own})
    return rows


def is_request(row: Mapping[str, Any]) -> bool:
    """True for a line of a batch's requests, which has a body to send and no response."""
    return {
        "custom_id",
        "method",
        "url",
        "body",
    } <= row.keys() and "response" not in row


REQUESTS = "batchinput.jsonl"
"""The file of a batch's requests, beside that of its results, by the name in OpenAI's guide."""


THESE_ARE_REQUESTS = "name the file with the batch's results: this one has its requests"


def openai_batch(document: Document) -> Iterable[Row] | None:
    """Results of OpenAI's batches, of chat completions or responses, as vLLM writes them, too.

    ``custom_id`` is the prompt's id, or leads to its text in the requests (``REQUESTS``), if these
    are there. A refusal in a field of its own is an answer, one that the server filtered is none.
    """
    first = document.value if document.path.suffix in _JSONL else {}
    if is_request(first):
        raise DataError(f"{document.path}: {THESE_ARE_REQUESTS}")
    is_result = isinstance(first.get("response"), Mapping) or "error" in first
    if not {"custom_id", "response"} <= set(first) or not is_result:
        return None
    return Rows(partial(_results, document.path))


def _results(path: Path) -> Iterator[Row]:
    requests, asked = path.with_name(REQUESTS), {}
    where = str(requests)
    try:
        for row in rows_in(requests) if requests.is_file() else ():
            asked[row["custom_id"]] = written(row["body"]["messages"][-1])
        for number, row in enumerate(rows_in(path), 1):
            where = f"{path}: row {number}"
            response = {} if row.get("error") else row["response"]
            body = response["body"] if response.get("status_code") == 200 else {}
            own = {"id": row["custom_id"], "model": body.get("model")}
            own["completion"] = list(_answers(body)) or None
            yield {**row, **own, **({"prompt": asked.get(own["id"])} if asked else {})}
    except MALFORMED:
        raise DataError(
            f"{where}: not as OpenAI's batches of chat completions have it"
        ) from None


def _answers(body: Mapping[str, Any]) -> Iterator[str | None]:
    for choice in body.get("choices") or []:
        is_whole = choice.get("finish_reason") != "content_filter"
        yield split_reasoning(choice["message"])[0] if is_whole else None
    if said := [one for one in body.get("output") or [] if one["type"] == "message"]:
        yield written(
            {"content": [part for message in said for part in message["content"]]}
        )


SCORES = "judge_scores.json"


def refusal_evaluation(document: Document) -> list[Row] | None:
    """LLM-Refusal-Evaluation's ``answers.json`` of one split (arXiv 2512.16602).

    An answer's label is what the judge said of it, from ``judge_scores.json`` in the same folder:
    its texts, several if it was asked several times, or else its score from -1 to 1. Without that
    file a judge reads the answers. The tool writes -1 where it knows no probability.
    """
    found = document.rows_at(having=("answers", "prompt"))
    if not found or not all(
        isinstance(row["answers"], list)
        and all(
            isinstance(one, Mapping) and "answer_prob" in one for one in row["answers"]
        )
        for row in found
    ):
        return None
    judged = _judged(document, [len(row["answers"]) for row in found])
    return [
        {
            **row,
            "completion": [answer.get("text") for answer in row["answers"]],
            "label": labels,
            "mean_logprob": [
                math.log(known)
                if isinstance(known, int | float) and known > 0
                else None
                for known in (answer["answer_prob"] for answer in row["answers"])
            ],
        }
        for row, labels in zip(found, judged, strict=True)
    ]


def _judged(document: Document, counts: Sequence[int]) -> list[list[str | None]]:
    path = document.path.with_name(SCORES)
    if not path.is_file():
        return [[None] * count for count in counts]
    try:
        scores = parse_json(path.read_bytes())
        labels = [[_label(answer) for answer in answers] for answers in scores]
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as fault:
        raise DataError(
            f"{path}: put the {SCORES} of the same run there, or remove it to have a judge read "
            f"the answers: {type(fault).__name__}: {fault}"
        ) from None
    if list(map(len, labels)) != list(counts):
        raise DataError(
            f"{path}: put the {SCORES} of the same run beside {document.path.name}: its "
            f"{sum(map(len, labels))} scores do not match the {sum(counts)} answers prompt by "
            "prompt"
        )
    return labels


def _label(score: Mapping[str, Any]) -> str | None:
    """What the judge said of one answer: its texts as a JSON list, or its score in words."""
    texts = score.get("judge_outputs")
    if (
        isinstance(texts, list)
        and texts
        and all(isinstance(text, str) for text in texts)
    ):
        return json.dumps(texts)
    value = score["label"]
    if not isinstance(value, int | float):
        raise TypeError("a label is not a number")
    return f"refusal share {(value + 1) / 2:.12g}" if value else None


def jailbreakbench(document: Document) -> list[Row] | None:
    """JailbreakBench's attack artifacts (github.com/JailbreakBench/artifacts).

    A row is one behaviour: its goal is the prompt that benchmarks have, ``attack`` the text that
    was sent in its place. If an attack was given up, the text and the answer are null and
    ``jailbroken`` is false. The authors count it as failed: in ``submission.py`` of their package
    jailbreakbench (1.0.0), an attack's success rate divides its jailbreaks by all 100 behaviours.
    """
    found = document.rows_at("jailbreaks", having=("goal",))
    if found is None:
        return None
    labels = {True: "jailbroken", False: "not jailbroken"}
    rows = []
    for row in found:
        broken, attack, answer = (
            row.get(key) for key in ("jailbroken", "prompt", "response")
        )
        label = labels[bool(broken)] if broken in (True, False) else None
        own = {
            "prompt": row["goal"],
            "completion": answer,
            "attack": attack,
            "label": label,
        }
        own["index"] = f"jailbreakbench-{row.get('index')}"
        rows.append({**row, **own, NEVER_ASKED: attack is None and answer is None})
    return rows


def cfsafety(document: Document) -> Iterable[Row] | None:
    """The item scores that CFSafety's authors released: a score per prompt, without answers.

    Columns: model, category, item (the prompt's row in its category), moral_judgement, score. Read
    them with ``--judge labels``, ``partial = true`` and ``where = { model = "GPT4" }``.
    """
    if document.path.suffix != ".csv":
        return None
    if not {"category", "item", "moral_judgement", "score"} <= set(document.value):
        return None
    return [
        {
            **row,
            "id": f"{row['category']}-{row['item']}",
            "completion": "(the answer was not released, only its score)",
            "label": f"{row['score']} of 5, moral {row['moral_judgement']}",
        }
        for row in rows_in(document.path)
    ]


FORMATS = (
    cfsafety, inspect_log, jailbreakbench, lm_eval, openai_batch, promptfoo, refusal_evaluation
)  # fmt: skip
"""Each reads a document's rows, or returns None if it is not of its format."""
