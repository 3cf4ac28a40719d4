"""The recorded answers of one file, and the candidate that gives them."""

from __future__ import annotations

import difflib
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.redaction import redacted
from refusal_checks.core.store import Store
from refusal_checks.core.text import brief, clean, count

COMPARED = 2_000
"""Most ids of a file that are compared with one that it lacks."""


@dataclass(frozen=True)
class Recording:
    """The recorded answers of one file, by prompt id and by prompt text, where it has these.

    Attributes:
        texts: recorded prompts by id.
        all_of: function that gives all values of the file's column ``id`` or ``prompt``.
        others: by prompt id, texts of rows with that id that answer another prompt.
        model: whose answers they are, as the file says; empty if it does not.
        repeats: says which rows, or which ids, stand there more often than others; else empty.
    """

    path: Path
    by_id: Mapping[str, tuple[Completion, ...]]
    by_text: Mapping[str, tuple[Completion, ...]]
    texts: Mapping[str, str]
    all_of: Callable[[str], Sequence[str]] = lambda field: ()
    others: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    repeats: str = ""

    def answers(self, prompt: Prompt) -> tuple[Completion, ...]:
        """The answers to a prompt: by its id, but an exact text beats an id with another text."""
        of_id = self.by_id.get(prompt.id, ())
        of_text = self.by_text.get(prompt.request.strip(), ())
        if self._is_reworded(prompt):
            return of_text or of_id
        return of_id or of_text

    def require(
        self, benchmark: str, prompts: Sequence[Prompt], redact: bool = False
    ) -> None:
        """Raise DataError unless every prompt has an answer."""
        missing = [prompt for prompt in prompts if not self.answers(prompt)]
        if not missing:
            return
        others = [prompt for prompt in missing if prompt.id in self.others]
        if others:
            raise self._other_prompts(benchmark, prompts, others, redact)

        first = ", ".join(clean(prompt.id, 60) for prompt in missing[:3])
        raise DataError(
            f"{self.path}: no answers for {len(missing)} of the {len(prompts)} prompts of "
            f"{benchmark}; first {first}. Record the rest, or gate what there is with "
            f"--set recording.partial=true. The file has {self._contents(missing)}"
        )

    def _other_prompts(
        self,
        benchmark: str,
        prompts: Sequence[Prompt],
        others: Sequence[Prompt],
        redact: bool,
    ) -> DataError:
        first = others[0]
        recorded, expected = self.others[first.id], first.request
        if redact:
            recorded, expected = redacted(recorded), redacted(expected)
        else:
            recorded, expected = repr(clean(recorded, 40)), repr(clean(expected, 40))
        return DataError(
            f"{self.path}: record answers to {benchmark}, or gate the rest with "
            f"--set recording.partial=true: {len(others)} of its {len(prompts)} ids have other "
            f"prompts there; {clean(first.id, 60)} is {recorded}, not {expected}. Rename the "
            "column if it holds rewritings or translations"
        )

    def _contents(self, missing: Sequence[Prompt]) -> str:
        """Say what the file has instead of the missing prompts' answers, for a message."""
        parts = []
        ids = self.all_of("id")
        if ids:
            first = missing[0].id
            near = difflib.get_close_matches(first, ids[:COMPARED], 1, 0.5) or ids[:1]
            parts.append(
                f"{count(len(ids), 'id')} (the nearest to {first} is {brief(near[0])})"
            )
        texts = self.all_of("prompt")
        if texts:
            parts.append(count(len(texts), "prompt"))
            loose = {letters_of(text) for text in texts}
            alike = sum(letters_of(prompt.request) in loose for prompt in missing)
            if alike:
                parts[-1] += f", {alike} alike but for case, spaces or punctuation"
        return " and ".join(parts)

    def require_labels(
        self,
        benchmark: str,
        prompts: Iterable[Prompt],
        is_known: Callable[[str], bool],
    ) -> None:
        """Raise DataError unless there are labels, and each is one that a judge can read."""
        labels = Counter[str]()
        for prompt in prompts:
            for answer in self.answers(prompt):
                if answer.label and answer.label.strip():
                    labels[answer.label.strip()] += 1
        if not labels:
            raise DataError(
                f"{self.path}: --judge labels: no answer to {benchmark} has a label; name their "
                "column with --set recording.columns.label=COLUMN, or give another --judge"
            )
        unknown = [
            (label, n) for label, n in labels.most_common() if not is_known(label)
        ]
        if unknown:
            shown = ", ".join(f"{brief(label)} ({n})" for label, n in unknown[:5])
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            example = (
                f'recording.labels={{{json.dumps(clean(unknown[0][0], 40))}="refusal"}}'
            )
            raise DataError(
                f"{self.path}: --judge labels: say what these labels of {benchmark} mean, "
                f"refusal, compliance or invalid: {shown}{more}. For example: "
                f"--set {shlex.quote(example)}"
            )

    def reworded(self, prompts: Iterable[Prompt]) -> list[str]:
        """Ids of prompts that were matched by id and whose recorded text differs."""
        return [
            prompt.id
            for prompt in prompts
            if self._is_reworded(prompt) and prompt.request.strip() not in self.by_text
        ]

    def _is_reworded(self, prompt: Prompt) -> bool:
        recorded = self.texts.get(prompt.id, prompt.request)
        return recorded.strip() != prompt.request.strip()


def letters_of(text: str) -> str:
    """The letters and digits of a text, case-folded."""
    return "".join(filter(str.isalnum, text.casefold()))


class ReplayCandidate:
    """Recorded answers, as many per prompt as the file has."""

    max_tokens: int | None = None

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording

    def keys(self, prompt: Prompt) -> Sequence[str]:
        samples = range(len(self._recording.answers(prompt)))
        return [f"{prompt.id}-{sample}" for sample in samples]

    def known(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        answers: dict[str, Completion] = {}
        for prompt in prompts:
            recorded = self._recording.answers(prompt)
            answers |= zip(self.keys(prompt), recorded, strict=True)
        return answers

    async def answer(
        self, prompt: Prompt, first: int, count: int
    ) -> Sequence[Completion]:
        return self._recording.answers(prompt)[first : first + count]
