"""What every verdict can tell of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, cast

Tone = Literal["refusing", "answering", "invalid"]
"""The colour of a verdict in a report."""


class VerdictBase:
    """What every judgement tells of itself; a type overrides what is different for it.

    Attributes:
        columns: the attributes that an exported table shows.
        quotes: the attributes that repeat a model's words, and so perhaps the answer's.
        has_sides: two such verdicts agree or disagree.
    """

    __slots__ = ()
    columns: ClassVar[tuple[str, ...]] = ()
    quotes: ClassVar[tuple[str, ...]] = ()
    has_sides: ClassVar[bool] = True

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        raise NotImplementedError

    @property
    def shown(self) -> tuple[str, Tone]:
        """The verdict as readers of a report filter by it, and its colour."""
        raise NotImplementedError

    @property
    def score(self) -> float | None:
        """The verdict as a number; None if its type is not a scale."""
        return None

    @property
    def category(self) -> str | None:
        """The way of refusing; None if the type has none."""
        return None

    @property
    def cut(self) -> int:
        """Characters of the answer that the judge was not shown; 0 if it read all of it."""
        return 0

    @property
    def escaped(self) -> int:
        """Special tokens of request and answer that were broken up for the judge."""
        return 0

    def redacted(self, hide: Callable[[str], str]) -> Self:
        """The verdict with the words of models hidden."""
        return self._with(**{name: hide(getattr(self, name)) for name in self.quotes})

    def cells(self) -> dict[str, Any]:
        """The columns of an exported table that the verdict fills, by name."""
        return {name: getattr(self, name) for name in ("kind", "verdict", *self.columns)}

    @classmethod
    def combine(cls, valid: Sequence[Self], judges: int, summary: str) -> Self | None:
        """The verdict of more than half of a panel's judges, None if there is none.

        Args:
            valid: the valid votes' verdicts, at least one.
            judges: number of judges asked, those without a valid verdict included.
            summary: who said what; it becomes the rationale.
        """
        verdict, count = Counter(vote.verdict for vote in valid).most_common(1)[0]
        if 2 * count <= judges:
            return None
        agreeing = [vote for vote in valid if vote.verdict == verdict]
        return agreeing[0].agreed(agreeing, summary)

    @classmethod
    def average(cls, valid: Sequence[Self], asked: int, summary: str) -> Self | None:
        """One judge's several verdicts on one answer as one; by default as a panel's.

        Args:
            valid: its valid verdicts, more than half of those that were asked for.
        """
        return cls.combine(valid, asked, summary)

    def agreed(self, votes: Sequence[Self], summary: str) -> Self:
        """The verdict of all the judges who agree with this one."""
        cut, escaped = max(vote.cut for vote in votes), max(vote.escaped for vote in votes)
        return self._with(rationale=summary, cut=cut, escaped=escaped)

    def _with(self, **changes: Any) -> Self:
        return cast(Self, replace(cast(Any, self), **changes))
