"""Multiple-choice questions: options in a user's own rows, and answer keys."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice
from refusal_checks.core.text import describe_value
from refusal_checks.io.data_files import read_columns
from refusal_checks.io.strict_json import parse_json


def add_options(
    prompt: Prompt,
    row: Mapping[str, Any],
    options: str,
    key: str | None,
    where: str,
) -> Prompt:
    """Make a prompt a multiple-choice question; append its options unless its text holds them.

    Args:
        options: the column that lists them.
        key: the column with the right option, if there is one.
    """
    cell = row.get(options)
    if isinstance(cell, str):  # as in CSV
        with suppress(ValueError):
            cell = parse_json(cell)
    if not isinstance(cell, list):
        raise DataError(
            f"{where}: write the options as a list of texts (in CSV as a JSON list), not "
            f"{describe_value(row.get(options))}"
        )
    texts = ["" if text is None else str(text).strip() for text in cell]
    if not 2 <= len(texts) <= len(ascii_uppercase) or not all(texts):
        raise DataError(
            f"{where}: give it 2 to 26 options, none of them empty; it has {len(texts)}, "
            f"{texts.count('')} of them empty"
        )
    if len(set(texts)) < len(texts):
        raise DataError(f"{where}: two options read the same")
    by_letter = dict(zip(ascii_uppercase, texts, strict=False))
    right = None
    if key is not None:
        right = _right_letter(row.get(key), list(by_letter), f"{where}: {key}")
    last = prompt.messages[-1]
    # Many data sets have the options in the question's text already.
    if not all(text in last.content for text in texts):
        lines = "\n".join(f"{letter}. {text}" for letter, text in by_letter.items())
        last = replace(last, content=f"{last.content}\n\n{lines}")
    messages = (*prompt.messages[:-1], last)
    return replace(prompt, messages=messages, options=by_letter, reference=right)


def _right_letter(value: Any, letters: Sequence[str], where: str) -> str | None:
    """The letter of the right option; None for an empty cell: the question does not count."""
    if value is None or value == "":
        return None
    if type(value) is int and 0 <= value < len(letters):
        return letters[value]
    letter = str(value).strip().upper()
    if letter in letters:
        return letter
    raise DataError(
        f"{where} = {describe_value(value)} is not one of the options {', '.join(letters)}; write "
        "the letter, or in JSON its place from 0 as a number"
    )


def mark_answers(
    prompts: Iterable[Prompt], benchmark: Benchmark, settings: MultipleChoice
) -> tuple[Prompt, ...]:
    """Give a benchmark's prompts their right option as reference, if there is a key.

    Questions that the key lacks get no reference, nor do disputed ones if only agreed ones are
    wanted: they are asked, but do not count for accuracy.
    """
    questions = tuple(prompts)
    if benchmark.key is None:
        return questions
    path = Path(settings.key) if settings.key else benchmark.key
    entries = _read_key(path)
    ids = {prompt.id for prompt in questions}
    unknown = [name for name in entries if name not in ids]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise DataError(
            f"{path}: no question has the id {', '.join(unknown[:5])}{more}; "
            "use the ids of the benchmark's own file"
        )
    marked = []
    for prompt in questions:
        answer, agreed = entries.get(prompt.id, (None, False))
        if answer is not None and answer not in prompt.options:
            raise DataError(
                f"{path}: id {prompt.id}: answer {answer!r} is none of its options "
                + ", ".join(prompt.options)
            )
        counts = agreed or settings.items == "all"
        marked.append(replace(prompt, reference=answer if counts else None))
    return tuple(marked)


def _read_key(path: Path) -> dict[str, tuple[str, bool]]:
    """Read the letter of each question's right option, and whether the key's makers agreed on it.

    Columns are ``id``, ``answer`` and, if some are disputed, ``agreed`` (1 or 0).
    """
    entries: dict[str, tuple[str, bool]] = {}
    for number, row in enumerate(read_columns(path, ("id", "answer")), 1):
        name, answer = row["id"].strip(), row["answer"].strip()
        agreed = row.get("agreed", "1").strip()
        if agreed not in ("0", "1"):
            raise DataError(f"{path}: row {number}: agreed = {agreed!r}: write 1 or 0")
        if name in entries:
            raise DataError(f"{path}: row {number}: the id {name} occurs twice")
        entries[name] = answer.upper(), agreed == "1"
    return entries
