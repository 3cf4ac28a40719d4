"""Remove the texts of prompts, answers and rationales from values, for runs with private texts.

A run with ``--redact`` decides on the texts but shows none: everything that it writes or publishes
passes through here first, so no report has a text to leak. Ids, groups, verdicts and figures stay;
a text is replaced by its hash and length. Only the store holds the texts themselves.
"""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from refusal_checks.core.errors import (
    EndpointError,
    RefusalChecksError,
    first_cause,
    reason,
)
from refusal_checks.core.judgements import FINISH_REASONS
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.redaction import redacted
from refusal_checks.engines import vllm
from refusal_checks.gates.comparison import Flip
from refusal_checks.gates.failing_prompts import FailingPrompt
from refusal_checks.gates.verdict import Verdict
from refusal_checks.models.model_names import CandidateModel, JudgeModel, Served
from refusal_checks.results.execution import Execution, ServerFacts
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import JUDGE_QUOTED, RunSummary
from refusal_checks.trust.minimums import JudgeCheck

Value = TypeVar("Value")

VARIABLE = "REFUSAL_CHECKS_REDACT"
"""Environment variable with the effect of ``--redact``."""


def is_redacted(option: bool = False) -> bool:
    """True if texts are hidden: by the option, or by its variable, which covers every command."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    return option or value not in ("", "0", "false", "no")


def _hide(value: Value, *names: str) -> Value:
    """Replace the texts in the named fields by their hashes."""
    hidden: dict[str, str] = {}
    for name in names:
        text = getattr(value, name)
        if text is not None:
            hidden[name] = redacted(text)
    return replace(value, **hidden)  # type: ignore[type-var]


def redact_prompt(original: Prompt) -> Prompt:
    hidden = original
    if original.reference not in original.options:  # else it is a letter
        hidden = _hide(original, "reference")
    return replace(
        hidden,
        messages=tuple(_hide(turn, "content") for turn in original.messages),
        judge_sees=tuple(_hide(turn, "content") for turn in original.judge_sees),
        options={
            letter: redacted(option) for letter, option in original.options.items()
        },
    )


def redact_judgement(original: Record) -> Record:
    votes = [
        replace(vote, judgement=vote.judgement.redact(redacted))
        for vote in original.votes
    ]
    judgement = original.judgement.redact(redacted)
    return replace(original, judgement=judgement, votes=tuple(votes))


def redact_record(original: Record) -> Record:
    answer = original.completion
    if answer:
        # The reason for its end is the server's word, and a server may say anything.
        if answer.finish_reason not in FINISH_REASONS:
            answer = _hide(answer, "finish_reason")
        answer = replace(_hide(answer, "text"), label=None)
    return replace(
        redact_judgement(original),
        prompt=redact_prompt(original.prompt),
        completion=answer,
    )


def redact_verdict(original: Verdict) -> Verdict:
    def flip(moved: Flip) -> Flip:
        return replace(_hide(moved, "answer_before"), now=_failing_prompt(moved.now))

    return original.map_texts(_failing_prompt, flip)


def _failing_prompt(original: FailingPrompt) -> FailingPrompt:
    """Remove a failing prompt's texts; the letter of an option stays."""
    letter = original.expected if len(original.expected) == 1 else ""
    return replace(_hide(original, "prompt", "answer", "rationale"), expected=letter)


def _hide_name(facts: ServerFacts) -> ServerFacts:
    """Redact the model name that a server reports: a server may say anything."""
    return facts.model_copy(update={"answers_as": redacted(facts.answers_as)})


@dataclass(frozen=True)
class Redaction:
    """Prepares values for reports, and hides their texts if asked to."""

    is_on: bool = False

    def require_silent(self, models: Sequence[CandidateModel | JudgeModel]) -> None:
        """Raise ModelError if vLLM would write prompts or answers into its log."""
        if not self.is_on:
            return
        for model in models:
            if isinstance(model, Served):
                vllm.check_logging(model.args)

    def judgements(self, records: Sequence[Record]) -> Sequence[Record]:
        return list(map(redact_judgement, records)) if self.is_on else records

    def records(self, records: Sequence[Record]) -> Sequence[Record]:
        return list(map(redact_record, records)) if self.is_on else records

    def verdict(self, original: Verdict) -> Verdict:
        return redact_verdict(original) if self.is_on else original

    def check(self, original: JudgeCheck) -> JudgeCheck:
        if not self.is_on:
            return original
        checks = []
        for check in original.checks:
            mistakes = [_hide(mistake, "rationale") for mistake in check.mistakes]
            checks.append(replace(check, mistakes=tuple(mistakes), why=""))
        return replace(original, checks=tuple(checks))

    def reason(self, fault: BaseException) -> str:
        """Redact why a run ended early: errors may quote what servers or libraries received."""
        first = first_cause(fault)
        if not self.is_on:
            return reason(fault)
        if isinstance(first, EndpointError):
            return (
                f"a server refused a request: HTTP {first.status} (--redact hides more)"
            )
        if isinstance(first, RefusalChecksError | CancelledError | OSError):
            return reason(first)
        return f"{type(first).__name__} (--redact hides more)"

    def manifest(self, original: Manifest) -> Manifest:
        if not self.is_on:
            return original
        sampling = dict(original.sampling)
        if sampling.get("system_prompt"):
            sampling["system_prompt"] = redacted(sampling["system_prompt"])
        spec = original.spec
        if spec.sampling.system_prompt:
            hidden = {"system_prompt": redacted(spec.sampling.system_prompt)}
            table = spec.sampling.model_copy(update=hidden)
            spec = spec.model_copy(update={"sampling": table})
        return original.model_copy(
            update={"sampling": sampling, "spec": spec, "redacted": True}
        )

    def execution(self, original: Execution) -> Execution:
        if not self.is_on:
            return original
        servers = {
            role: {server: _hide_name(facts) for server, facts in by_server.items()}
            for role, by_server in original.servers.items()
        }
        return original.model_copy(update={"servers": servers})

    def summary(self, original: RunSummary) -> RunSummary:
        if not self.is_on:
            return original
        return replace(
            original,
            manifest=self.manifest(original.manifest),
            execution=self.execution(original.execution),
            notes=[
                note for note in original.notes if not note.startswith(JUDGE_QUOTED)
            ],
        )


class RedactedFolder(RunFolder):
    def summary(self) -> RunSummary:
        redaction, original = Redaction(True), super().summary()
        if original.manifest.redacted:
            return original
        return replace(
            redaction.summary(original),
            verdicts={
                gate: redact_verdict(shown) for gate, shown in original.verdicts.items()
            },
            judge=original.judge and redaction.check(original.judge),
            # A server's error may repeat a text.
            failure=redacted(original.failure),
            judge_error=redacted(original.judge_error),
            errors={gate: redacted(why) for gate, why in original.errors.items()},
        )

    def records(self, benchmark: str) -> Iterator[Record]:
        return map(redact_record, super().records(benchmark))
