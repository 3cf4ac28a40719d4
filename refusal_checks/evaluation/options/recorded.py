"""Options on answers that no engine gives here: batch files, the store alone, and recordings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import why_no_file
from refusal_checks.evaluation.options.call import Call
from refusal_checks.judges.rules import require_meanings
from refusal_checks.models.recordings.replay import ReplayOptions, pairs
from refusal_checks.models.spec import CandidateModel, Replay

BatchFiles = tuple[Path | None, tuple[Path, ...]]
"""A file to write with the pending requests, if any, and those with results of earlier ones."""


def add_batch(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--batch-export",
        metavar="FILE",
        help="write all pending requests as OpenAI batch JSONL, for any engine; no gate is decided",
    )
    group.addoption(
        "--batch-import",
        metavar="FILE",
        action="append",
        help="store the results of --batch-export's requests (repeatable); no gate is decided",
    )
    group.addoption(
        "--stored-only",
        action="store_true",
        help="start no engine and ask no server: answers that are not stored are invalid",
    )


def is_batch(config: Call) -> bool:
    return bool(config.getoption("batch_export") or config.getoption("batch_import"))


def read_batch(config: Call) -> BatchFiles | None:
    if not is_batch(config):
        return None
    named = config.getoption("batch_export")
    export = config.folder / named if named else None
    results = tuple(config.folder / name for name in config.getoption("batch_import") or ())
    if export and export.is_dir():
        raise UserError(f"--batch-export {export}: a folder; name a file")
    for path in results:
        if why := why_no_file(path):
            raise UserError(f"--batch-import {path}: {why}")
    if config.getoption("fresh"):
        raise UserError(
            "--fresh with a batch: answers of a batch go into the store; for an empty one give "
            "--store FILE"
        )
    if config.getoption("stop_early"):
        raise UserError("--stop-early with a batch: a batch asks for everything at once")
    return export, results


def add_replay(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--replay-columns",
        metavar="FIELD=COLUMN,...",
        default="",
        help="columns of recorded answers: id, prompt, completion, label, finish_reason, logprob "
        "(mean) or total_logprob and tokens; a dot leads into nested values (doc.prompt)",
    )
    group.addoption(
        "--replay-where",
        metavar="COLUMN=VALUE,...",
        default="",
        help="read only these rows of recorded answers (model=GPT4)",
    )
    group.addoption(
        "--replay-partial",
        action="store_true",
        help="leave out prompts without a recorded answer, and say how many",
    )
    group.addoption(
        "--label-map",
        metavar="LABEL=MEANING,...",
        default="",
        help="what recorded labels mean: refusal, compliance, a degree, a score, or invalid",
    )


def read_replay(config: Call, candidates: Iterable[CandidateModel]) -> ReplayOptions:
    meanings = pairs(config.getoption("label_map"), "--label-map", "LABEL=MEANING")
    labels = {label.lower(): meaning.lower() for label, meaning in meanings.items()}
    require_meanings(labels, "--label-map")
    reading = ReplayOptions(
        pairs(config.getoption("replay_columns"), "--replay-columns"),
        labels,
        pairs(config.getoption("replay_where"), "--replay-where", "COLUMN=VALUE"),
        config.getoption("replay_partial"),
    )
    options = ("--replay-columns", "--replay-where", "--replay-partial", "--label-map")
    given = [option for option in options if config.getoption(option)]
    if given and not any(isinstance(candidate, Replay) for candidate in candidates):
        raise UserError(
            f"{given[0]}: leave it out, or name a file with --candidate=replay:FILE: it "
            "only says how recorded answers are read"
        )
    return reading
