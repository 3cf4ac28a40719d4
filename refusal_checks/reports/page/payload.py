"""A benchmark's records as JSON in the page, which its script shows as text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from refusal_checks.core.judgements import Judgement
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.gates.failing_prompts import MissedBound
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import confidence
from refusal_checks.reports.page.render import embed


class Payload:
    """A benchmark's records as JSON for the page's script, and data for charts.

    Everything is an array, whose positions are named here and in ``script.js``; recurring words are
    replaced by their index in a table::

    benchmark  {"name", "kind", "groups": [kind of group ...], "judges": [name ...],
                "words": [[verdict, tone] ...], "prompts": [prompt ...]}
    prompt     [id, [group or null ...], turns, confidence, [gate ...], reference, [answer ...]]
    turns      text of the user, or [[role, text] ...]
    answer     [text or null, judgement, facts, [[judge, judgement] ...]]
    judgement  [word, category or null, rationale]
    facts      what else is known, for example "ended by length, 12 tokens"

    A tone is the colour of a verdict: ``refusing``, ``answering`` or ``invalid``.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        verdicts: Sequence[Verdict],
        records: Iterable[Record],
    ) -> None:
        self.name = name
        self.kind = kind
        # By number of the verdict; each prompt lists the numbers of those that it counts against.
        self._bounds: dict[int, MissedBound] = {}
        for number, verdict in enumerate(verdicts):
            bound = MissedBound.find(verdict.gate, verdict.estimate.value)
            if bound and verdict.gate.benchmark == name:
                self._bounds[number] = bound
        self._words: dict[tuple[str, str], int] = {}
        self._judges: dict[str, int] = {}
        self._groups: dict[str, None] = {}
        self.confidences: list[float] = []  # of refusal, of each prompt that has one
        self.against: Counter[int] = Counter()  # prompts by number of the verdict
        # In parts, since the whole may not fit the memory several times; embed() makes them safe.
        self.parts = [Markup("")]
        # A run writes all answers to a prompt together, so that no more than these are in memory.
        for prompt, answers in groupby(records, lambda record: record.prompt):
            if len(self.parts) > 1:
                self.parts.append(Markup(","))
            text = embed(self._prompt(prompt, list(answers)))
            self.parts.append(Markup(text))  # noqa: S704
        tables = {
            "groups": [*self._groups],
            "judges": [*self._judges],
            "words": [*self._words],
        }
        head = embed({"name": name, "kind": kind, **tables})
        self.parts[0] = Markup(f'{head[:-1]},"prompts":[')  # noqa: S704
        self.parts.append(Markup("]}"))

    def _prompt(self, prompt: Prompt, answers: Sequence[Record]) -> list[Any]:
        for kind in prompt.groups:
            self._groups.setdefault(kind)
        score = confidence(answers)
        if score is not None:
            self.confidences.append(score)
        against = [
            number
            for number, bound in self._bounds.items()
            if bound.is_missed_by(answers)
        ]
        self.against.update(against)
        turns = [[turn.role, turn.content] for turn in prompt.messages]
        is_request_alone = len(turns) == 1 and turns[0][0] == "user"
        return [
            prompt.id,
            # Shorter than the table where a later prompt brings another kind.
            [prompt.groups.get(kind) for kind in self._groups],
            prompt.request if is_request_alone else turns,
            None if score is None else round(score, 4),
            against,
            prompt.reference,
            [self._answer(record) for record in answers],
        ]

    def _answer(self, record: Record) -> list[Any]:
        text = record.completion.text if record.completion else None
        judgement = self._judgement(record.judgement)
        votes = []
        for vote in record.votes:
            judge = self._judges.setdefault(vote.judge, len(self._judges))
            votes.append([judge, self._judgement(vote.judgement)])
        return [text, judgement, ", ".join(_facts(record)), votes]

    def _judgement(self, judgement: Judgement) -> list[Any]:
        number = self._words.setdefault(judgement.shown, len(self._words))
        return [number, judgement.category, judgement.rationale]


def _facts(record: Record) -> Iterator[str]:
    completion, judgement = record.completion, record.judgement
    if completion:
        if completion.finish_reason != "stop":
            yield f"ended by {completion.finish_reason}"
        if completion.tokens:
            yield count(completion.tokens, "token")
        if completion.mean_logprob is not None:
            yield f"mean log-probability {completion.mean_logprob:.3f}"
        if completion.reasoning:
            yield f"reasoning {completion.reasoning}"
        if completion.label is not None:
            yield f"recorded label {completion.label}"
    if judgement.in_words != judgement.shown[0]:
        yield judgement.in_words
    if judgement.cut:
        yield f"{judgement.cut} characters not shown to the judge"
    if judgement.escaped:
        yield f"{judgement.escaped} special tokens broken up for the judge"
