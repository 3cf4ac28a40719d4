"""A benchmark's records as JSON for the page's script, and what the charts need of them.

Everything is an array, whose places are named here and in ``script.js``; recurring words are
numbers in a table::

    benchmark  {"name", "kind", "groups": [kind of group ...], "judges": [name ...],
                "words": [[verdict, tone] ...], "prompts": [prompt ...]}
    prompt     [id, [group or null ...], turns, confidence, [gate ...], reference, [answer ...]]
    turns      text of the user, or [[role, text] ...]
    answer     [text or null, judgement, facts, [[judge, judgement] ...]]
    judgement  [word, category or null, rationale]
    facts      what else is known, for example "ended by length, 12 tokens"

A tone is the colour of a verdict: ``refusing``, ``answering`` or ``invalid``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Judgement
from refusal_checks.gates.decide import Verdict
from refusal_checks.metrics import confidence
from refusal_checks.reports.messages import standard
from refusal_checks.reports.page.render import embed


class Payload:
    """One benchmark's records.

    Args:
        verdicts: the run's, by number; each prompt lists those that it counts against.
        records: are read once.

    Attributes:
        text: the JSON.
        confidences: the refusal confidence of each prompt that has one.
        against: by number of a verdict, how many prompts count against its gate.
    """

    def __init__(
        self, name: str, kind: str, verdicts: Mapping[int, Verdict], records: Iterable[Record]
    ) -> None:
        self.name = name
        self.kind = kind
        self._standards = {
            number: bound
            for number, verdict in verdicts.items()
            if verdict.gate.benchmark == name and (bound := standard(verdict))
        }
        self._words: dict[tuple[str, str], int] = {}
        self._judges: dict[str, int] = {}
        self._groups: dict[str, None] = {}
        self.confidences: list[float] = []
        self.against: Counter[int] = Counter()
        self.text = self._read(records)

    def _read(self, records: Iterable[Record]) -> Markup:
        prompts = ",".join(map(embed, self._prompts(records)))
        head = {
            "name": self.name,
            "kind": self.kind,
            "groups": list(self._groups),
            "judges": list(self._judges),
            "words": list(self._words),
        }
        # embed() makes it safe
        return Markup(f'{embed(head)[:-1]},"prompts":[{prompts}]}}')  # noqa: S704

    def _prompts(self, records: Iterable[Record]) -> Iterator[list[Any]]:
        for prompt, answers in groupby(records, lambda record: record.prompt):
            yield self._prompt(prompt, list(answers))

    def _prompt(self, prompt: Prompt, answers: Sequence[Record]) -> list[Any]:
        for kind in prompt.groups:
            self._groups.setdefault(kind)
        score = confidence(answers)
        if score is not None:
            self.confidences.append(score)
        against = [n for n, bound in self._standards.items() if bound.is_missed_by(answers)]
        self.against.update(against)
        return [
            prompt.id,
            [prompt.groups.get(kind) for kind in self._groups],
            _turns(prompt),
            None if score is None else round(score, 4),
            against,
            prompt.reference,
            [self._answer(record) for record in answers],
        ]

    def _answer(self, record: Record) -> list[Any]:
        return [
            record.completion.text if record.completion else None,
            self._judgement(record.judgement),
            ", ".join(_facts(record)),
            [[self._judge(vote.judge), self._judgement(vote.judgement)] for vote in record.votes],
        ]

    def _judgement(self, judgement: Judgement) -> list[Any]:
        number = self._words.setdefault(judgement.shown, len(self._words))
        return [number, judgement.category, judgement.rationale]

    def _judge(self, name: str) -> int:
        return self._judges.setdefault(name, len(self._judges))


def _turns(prompt: Prompt) -> str | list[list[str]]:
    if len(prompt.messages) == 1 and prompt.messages[0].role == "user":
        return prompt.request
    return [[turn.role, turn.content] for turn in prompt.messages]


def _facts(record: Record) -> Iterator[str]:
    completion, judgement = record.completion, record.judgement
    if completion:
        if completion.finish_reason != "stop":
            yield f"ended by {completion.finish_reason}"
        if completion.tokens:
            yield f"{completion.tokens} tokens"
        if completion.mean_logprob is not None:
            yield f"mean log-probability {completion.mean_logprob:.3f}"
        if completion.reasoning:
            yield f"reasoning {completion.reasoning}"
        if completion.label is not None:
            yield f"recorded label {completion.label}"
    if judgement.verdict != judgement.shown[0]:
        yield judgement.verdict
    if judgement.cut:
        yield f"{judgement.cut} characters not shown to the judge"
    if judgement.escaped:
        yield f"{judgement.escaped} special tokens broken up for the judge"
