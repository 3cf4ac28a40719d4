"""Options on files of recorded answers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.judges.rules import require_meanings
from refusal_checks.models.recordings.replay import Reading, pairs
from refusal_checks.models.spec import CandidateModel, Replay
from refusal_checks.run.options.call import Call

_OPTIONS = ("--replay-columns", "--replay-where", "--replay-partial", "--label-map")


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    group.addoption(
        "--replay-columns",
        metavar="FIELD=COLUMN,...",
        default="",
        help="columns of recorded answers: id, prompt, completion, label, logprob (mean) or "
        "total_logprob and tokens; a dot leads "
        "into nested values (doc.prompt)",
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


def read(config: Call, candidates: Iterable[CandidateModel]) -> Reading:
    """How recorded answers are read.

    Raises:
        UserError: an option is not of its form, a label means nothing that is known, or no
            candidate is a file of recorded answers.
    """
    meanings = pairs(config.getoption("label_map"), "--label-map", "LABEL=MEANING")
    labels = {label.lower(): meaning.lower() for label, meaning in meanings.items()}
    require_meanings(labels, "--label-map")
    reading = Reading(
        pairs(config.getoption("replay_columns"), "--replay-columns"),
        labels,
        pairs(config.getoption("replay_where"), "--replay-where", "COLUMN=VALUE"),
        config.getoption("replay_partial"),
    )
    given = [option for option in _OPTIONS if config.getoption(option)]
    if given and not any(isinstance(candidate, Replay) for candidate in candidates):
        raise UserError(
            f"{given[0]}: leave it out, or name a file with --candidate=replay:FILE: it "
            "only says how recorded answers are read"
        )
    return reading
