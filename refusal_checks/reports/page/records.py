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
from collections.abc import Iterable, Iterator, Sequence
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
        verdicts: the run's; each prompt lists the numbers of those that it counts against.
        records: are read once.

    Attributes:
        text: the JSON.
        confidences: the refusal confidence of each prompt that has one.
        against: by number of a verdict, how many prompts count against its gate.
    """

    def __init__(
        self, name: str, kind: str, verdicts: Sequence[Verdict], records: Iterable[Record]
    ) -> None:
        self.name = name
        self.kind = kind
        own = (
            (n, standard(each)) for n, each in enumerate(verdicts) if each.gate.benchmark == name
        )
        self._standards = {number: bound for number, bound in own if bound}
        self._words: dict[tuple[str, str], int] = {}
        self._judges: dict[str, int] = {}
        self._groups: dict[str, None] = {}
        self.confidences: list[float] = []
        self.against: Counter[int] = Counter()
        found = groupby(records, lambda record: record.prompt)
        prompts = ",".join(embed(self._prompt(prompt, list(answers))) for prompt, answers in found)
        tables = {"groups": [*self._groups], "judges": [*self._judges], "words": [*self._words]}
        head = {"name": name, "kind": kind, **tables}
        # embed() makes it safe
        self.text = Markup(f'{embed(head)[:-1]},"prompts":[{prompts}]}}')  # noqa: S704

    def _prompt(self, prompt: Prompt, answers: Sequence[Record]) -> list[Any]:
        for kind in prompt.groups:
            self._groups.setdefault(kind)
        score = confidence(answers)
        if score is not None:
            self.confidences.append(score)
        against = [n for n, bound in self._standards.items() if bound.is_missed_by(answers)]
        self.against.update(against)
        turns = [[turn.role, turn.content] for turn in prompt.messages]
        return [
            prompt.id,
            [prompt.groups.get(kind) for kind in self._groups],
            prompt.request if len(turns) == 1 and turns[0][0] == "user" else turns,
            None if score is None else round(score, 4),
            against,
            prompt.reference,
            [self._answer(record) for record in answers],
        ]

    def _answer(self, record: Record) -> list[Any]:
        text = record.completion.text if record.completion else None
        own, judges = self._judgement(record.judgement), self._judges
        votes = [
            [judges.setdefault(vote.judge, len(judges)), self._judgement(vote.judgement)]
            for vote in record.votes
        ]
        return [text, own, ", ".join(_facts(record)), votes]

    def _judgement(self, judgement: Judgement) -> list[Any]:
        number = self._words.setdefault(judgement.shown, len(self._words))
        return [number, judgement.category, judgement.rationale]


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
