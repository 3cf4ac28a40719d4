"""The recorded answers of one file, and the candidate that gives them."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.redaction import redacted
from refusal_checks.core.text import describe_value, sanitize
from refusal_checks.io.store import Store


@dataclass(frozen=True)
class Recording:
    """The recorded answers of one file.

    Attributes:
        found: answers by a prompt's id and text: all of them by its text alone (the id is empty);
            those of rows without the text of any prompt by the id alone (the text is empty).
        texts: by id, the recorded text of a row that was found by its id; empty if it has none.
        first_id: the id of its first row; empty if it has no column for them.
        model: whose answers they are, as the file says; empty if it does not.
        repeats: says which rows stand there more than once; else empty.
    """

    path: Path
    found: Mapping[tuple[str, str], tuple[Completion, ...]]
    texts: Mapping[str, str]
    first_id: str = ""
    model: str = ""
    repeats: str = ""

    def answers_to(self, prompt: Prompt) -> tuple[Completion, ...]:
        """The answers to a prompt: of rows with exactly its text, else of rows with its id."""
        text = prompt.request.strip()
        for place in ((prompt.id, text), ("", text), (prompt.id, "")):
            if place in self.found:
                return self.found[place]
        return ()

    def find_reworded(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        """Prompts that were found by their id, and whose text is not in the recorded one.

        Upper case, spaces and punctuation do not count.
        """
        found = []
        for prompt in prompts:
            recorded = self.texts.get(prompt.id)
            if not recorded or ("", prompt.request.strip()) in self.found:
                continue
            # "in": a recorded text often has a template around the request.
            if _letters(prompt.request) not in _letters(recorded):
                found.append(prompt)
        return found

    def require_answers(
        self, benchmark: str, prompts: Sequence[Prompt], redact: bool = False
    ) -> None:
        """Raise DataError unless every prompt has an answer, and hardly any another text."""
        missing = [prompt for prompt in prompts if not self.answers_to(prompt)]
        if missing:
            first = ", ".join(sanitize(prompt.id, 60) for prompt in missing[:3])
            known = (
                f"; its own first id is {describe_value(self.first_id)}"
                if self.first_id
                else ""
            )
            do = "record the rest, or gate what there is with --set recording.partial=true"
            if len(missing) == len(prompts):
                do = f"name the recording of {benchmark}, or leave it out (-k 'not {benchmark}')"
            raise DataError(
                f"{self.path}: {do}: no answers for {len(missing)} of the "
                f"{len(prompts)} prompts of {benchmark}; first {first}{known}"
            )
        answers = [answer for prompt in prompts for answer in self.answers_to(prompt)]
        if all(answer.is_blank for answer in answers):
            raise DataError(
                f"{self.path}: name the column of answers with --set "
                f"recording.columns.completion=COLUMN, or record them: all {len(answers)} answers "
                f"to {benchmark} are empty"
            )
        reworded = self.find_reworded(prompts)
        # XSTest's own recordings reword one prompt of 200.
        if len(reworded) > max(1, len(prompts) / 100):
            example = reworded[0]
            recorded, expected = self.texts[example.id], example.request
            if redact:
                recorded, expected = redacted(recorded), redacted(expected)
            else:
                recorded = repr(sanitize(recorded, 40))
                expected = repr(sanitize(expected, 40))
            raise DataError(
                f"{self.path}: record answers to {benchmark}, or rename the column of prompts if "
                f"the ids alone are right: {len(reworded)} of its {len(prompts)} prompts are "
                f"worded differently there; {sanitize(example.id, 60)} is {recorded}, not "
                f"{expected}"
            )

    def require_labels(
        self,
        benchmark: str,
        prompts: Iterable[Prompt],
        is_known: Callable[[str], bool],
    ) -> int:
        """Raise DataError unless there are labels, and each is one that a judge can read.

        Returns:
            The number of answers without a label.
        """
        labels = Counter[str]()
        for prompt in prompts:
            labels.update(
                (answer.label or "").strip() for answer in self.answers_to(prompt)
            )
        # Some rows without a label are invalid answers; a file without any was not labelled.
        blank = labels.pop("", 0)
        if not labels:
            raise DataError(
                f"{self.path}: --judge labels: no answer to {benchmark} has a label; name their "
                "column with --set recording.columns.label=COLUMN, or give another --judge"
            )
        unknown = [
            (label, n) for label, n in labels.most_common() if not is_known(label)
        ]
        if unknown:
            shown = ", ".join(
                f"{describe_value(label)} ({n})" for label, n in unknown[:5]
            )
            first = json.dumps(sanitize(unknown[0][0], 40))
            raise DataError(
                f"{self.path}: --judge labels: say what these labels of {benchmark} mean, "
                f"refusal, compliance or invalid: {shown}. For example: --set "
                + shlex.quote(f'recording.labels={{{first}="refusal"}}')
            )
        return blank


def _letters(text: str) -> str:
    """The letters and digits of a text, case-folded."""
    return "".join(filter(str.isalnum, text.casefold()))


class ReplayCandidate:
    """Recorded answers, as many per prompt as the file has."""

    max_tokens: int | None = None

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording

    def keys(self, prompt: Prompt) -> Sequence[str]:
        # Nothing of a recording is stored, so its keys need not depend on the model.
        samples = range(len(self._recording.answers_to(prompt)))
        return [f"{prompt.id}-{sample}" for sample in samples]

    def stored_answers(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        answers: dict[str, Completion] = {}
        for prompt in prompts:
            recorded = self._recording.answers_to(prompt)
            answers |= zip(self.keys(prompt), recorded, strict=True)
        return answers

    async def answer(
        self, prompt: Prompt, first: int, count: int
    ) -> Sequence[Completion]:
        return self._recording.answers_to(prompt)[first : first + count]
