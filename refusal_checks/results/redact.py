"""Values without the texts of prompts, answers and rationales, for runs whose texts are private.

A run with ``--redact`` decides on the texts and shows none: what it writes and publishes goes
through here first, so that no report has a text to leak. Ids, groups, verdicts and figures stay;
a text becomes its hash and its length. The texts themselves are in the store alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import (
    EndpointError,
    ModelError,
    RefusalChecksError,
    first_of,
    reason,
)
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.check import JudgeCheck
from refusal_checks.models.spec import Candidate, JudgeModel, Served
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    import pytest

VARIABLE = "REFUSAL_CHECKS_REDACT"
"""Environment variable that redacts as ``--redact`` does."""

_SHAPE = re.compile(r"\[redacted: sha256 [0-9a-f]{12}, \d+ characters\]")

_LOGS_TEXTS = "--enable-log-"
"""Begins vLLM's switches that put prompts and answers into its log, off unless asked for."""

_LOGS_ANSWERS = "VLLM_DEBUG_LOG_API_SERVER_RESPONSE"


def add(group: pytest.OptionGroup) -> None:
    """Declare the option."""
    group.addoption(
        "--redact",
        action="store_true",
        help=f"show ids, hashes and lengths instead of prompts, answers and rationales; the texts "
        f"stay in the store (${VARIABLE}=1)",
    )


def is_wanted(option: bool) -> bool:
    """Whether no texts are to be shown: by the option, or by the variable."""
    said = os.environ.get(VARIABLE, "").strip().lower()
    return option or said not in ("", "0", "false", "no")


def require_silent(models: Sequence[Candidate | JudgeModel]) -> None:
    """Refuse engines that would write prompts or answers into their logs.

    Raises:
        ModelError: one is asked to.
    """
    for model in (found for found in models if isinstance(found, Served)):
        for argument in model.args:
            if argument.replace("_", "-").startswith(_LOGS_TEXTS):
                raise ModelError(
                    f"--redact: {argument} makes vLLM log prompts or answers; leave it out of "
                    f"the arguments of {model.path}"
                )
    if os.environ.get(_LOGS_ANSWERS, "").lower() == "true":
        raise ModelError(f"--redact: ${_LOGS_ANSWERS} makes vLLM log answers; unset it")


def text(found: str) -> str:
    """Hash and length for a text; nothing for nothing, and what is redacted stays as it is."""
    if not found or is_redacted(found):
        return found
    digest = hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"[redacted: sha256 {digest}, {len(found)} characters]"


def is_redacted(found: str) -> bool:
    """Whether a text has been replaced by its hash and its length."""
    return _SHAPE.fullmatch(found) is not None


def has_redacted(found: str) -> bool:
    """Whether a text, a conversation for example, has such a part."""
    return _SHAPE.search(found) is not None


def prompt(found: Prompt) -> Prompt:
    """The prompt without its texts; the letter of a right option stays."""
    reference = found.reference
    if reference is not None and reference not in found.options:
        reference = text(reference)
    return replace(
        found,
        messages=tuple(Message(turn.role, text(turn.content)) for turn in found.messages),
        reference=reference,
        options={letter: text(option) for letter, option in found.options.items()},
    )


def completion(found: Completion) -> Completion:
    """The answer without its text, and without the label that was recorded beside it."""
    return replace(found, text=text(found.text), label=None)


def judged(found: Record) -> Record:
    """The record with its texts, but without any judge's words."""
    votes = tuple(Vote(vote.judge, vote.judgement.redacted(text)) for vote in found.votes)
    return replace(found, judgement=found.judgement.redacted(text), votes=votes)


def record(found: Record) -> Record:
    """The record without any text."""
    answer = completion(found.completion) if found.completion else None
    return replace(judged(found), prompt=prompt(found.prompt), completion=answer)


def offender(found: Offender) -> Offender:
    """The offender without its texts."""
    return replace(
        found,
        prompt=text(found.prompt),
        answer=text(found.answer),
        rationale=text(found.rationale),
    )


def verdict(found: Verdict) -> Verdict:
    """The verdict without the texts of its offenders and of prompts that moved."""
    return replace(
        found,
        offenders=tuple(map(offender, found.offenders)),
        comparison=_comparison(found.comparison) if found.comparison else None,
    )


def _comparison(found: Comparison) -> Comparison:
    return replace(found, fell=tuple(map(_flip, found.fell)), rose=tuple(map(_flip, found.rose)))


def _flip(found: Flip) -> Flip:
    before = None if found.answer_before is None else text(found.answer_before)
    return replace(found, now=offender(found.now), answer_before=before)


@dataclass(frozen=True)
class Redaction:
    """What a run does with values before it shows them: all as they are, unless it is wanted."""

    wanted: bool = False

    def require_silent(self, models: Sequence[Candidate | JudgeModel]) -> None:
        """Refuse engines that would write prompts or answers into their logs.

        Raises:
            ModelError: one is asked to.
        """
        if self.wanted:
            require_silent(models)

    def store(self, usual: Path, folder: Path, fresh: bool) -> Path:
        """The file of completions and judgements; a fresh run has one of its own.

        Args:
            folder: the run's, which has no texts where these are redacted.
        """
        if not fresh:
            return usual
        own = usual.with_name(f"{usual.stem}-{folder.name}.sqlite")
        return own if self.wanted else folder / "store.sqlite"

    def judged(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records as a run decides on them."""
        return [judged(found) for found in records] if self.wanted else records

    def records(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records as a run writes them."""
        return [record(found) for found in records] if self.wanted else records

    def verdict(self, found: Verdict) -> Verdict:
        """A verdict as a run publishes it."""
        return verdict(found) if self.wanted else found

    def check(self, found: JudgeCheck) -> JudgeCheck:
        """How the judge did on its own check."""
        if not self.wanted:
            return found
        checks = tuple(
            replace(
                check,
                mistakes=tuple(
                    replace(mistake, rationale=text(mistake.rationale))
                    for mistake in check.mistakes
                ),
            )
            for check in found.checks
        )
        return replace(found, checks=checks)

    def reason(self, fault: BaseException) -> str:
        """Why a run ended early: servers repeat what they were sent, and so may libraries."""
        if not self.wanted:
            return reason(fault)
        first = first_of(fault)
        if isinstance(first, EndpointError):
            return f"a server refused what it was asked: HTTP {first.status} (--redact hides more)"
        if isinstance(first, RefusalChecksError | CancelledError | OSError):
            return reason(first)
        return f"{type(first).__name__} (--redact hides more)"

    def summary(self, found: RunSummary) -> RunSummary:
        """The summary as a run writes it."""
        if not self.wanted:
            return found
        return replace(found, manifest=_manifest(found.manifest))


class RedactedFolder(RunFolder):
    """A run's folder that is read without texts, whether the run was redacted or not."""

    def summary(self) -> RunSummary:
        """The run's summary; see ``RunFolder.summary``."""
        redaction, found = Redaction(True), super().summary()
        if found.manifest.redacted:
            return found
        return replace(
            redaction.summary(found),
            verdicts={id: verdict(each) for id, each in found.verdicts.items()},
            judge=found.judge and redaction.check(found.judge),
            # What a run that was not redacted says of a server's error may repeat a text.
            failure=text(found.failure),
            errors={id: text(why) for id, why in found.errors.items()},
        )

    def records(self, benchmark: str) -> Iterator[Record]:
        """A benchmark's records; see ``RunFolder.records``."""
        return map(record, super().records(benchmark))


def _manifest(found: Manifest) -> Manifest:
    sampling = {**found.sampling}
    if sampling.get("system_prompt"):
        sampling["system_prompt"] = text(sampling["system_prompt"])
    return found.extended(sampling=sampling, redacted=True)
