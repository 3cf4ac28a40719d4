"""Types of placement: what engines need, what the user asks for, where each engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from refusal_checks.engines.engine import Assignment, Parallel

Kind = Literal["none", "one", "together", "turns", "split"]
"""``none``: no engine starts; ``one``: a single engine; ``together``: all at the same time on the
same devices; ``turns``: the candidate's engine first, the judge's after it; ``split``: all at the
same time, each on devices of its own."""

Wanted = Literal["auto", "together", "turns", "split"]

ENCODER = 1.0
"""GiB of weights below which a classifier is an encoder, which keeps no cache."""


@dataclass(frozen=True, eq=False)
class EngineNeed:
    """An engine to be placed. Equal needs of the same model remain two engines.

    Attributes:
        parallel: what the user's arguments say about devices.
        weights: GiB of the model's weight files; None if unknown.
        answers, judges: whether it serves the candidate, and whether it serves a judge.
        classifies: True if it reads each text once and writes nothing.
        vocabulary: tokens that the model knows; None if unknown.
        is_mixture: True for a mixture of experts.
        is_halved: True if its weights take half as much on a GPU as in the files.
    """

    model: str
    parallel: Parallel = field(default_factory=Parallel)
    weights: float | None = None
    answers: bool = True
    judges: bool = False
    classifies: bool = False
    vocabulary: int | None = None
    is_mixture: bool = False
    is_halved: bool = False

    @property
    def name(self) -> str:
        """The model's short name: the last part of its path."""
        return "/".join(self.model.split("/")[-2:])

    @property
    def is_encoder(self) -> bool:
        return self.classifies and self.weights is not None and self.weights < ENCODER

    @property
    def shown(self) -> str:
        if self.weights is None:
            return f"{self.name} (weights of unknown size)"
        return f"{self.name} ({self.weights:.1f} GiB)"


@dataclass(frozen=True)
class PlacementRequest:
    """What the user asks for.

    Attributes:
        candidate_devices, judge_devices: device ids; empty leaves the choice to the placement.
    """

    kind: Wanted = "auto"
    candidate_devices: tuple[str, ...] = ()
    judge_devices: tuple[str, ...] = ()

    def devices_of(self, need: EngineNeed) -> tuple[str, ...]:
        return self.candidate_devices if need.answers else self.judge_devices


@dataclass(frozen=True)
class Placement:
    """Where each engine runs, in the order of the needs; ``why`` is one line for people."""

    kind: Kind
    why: str
    places: tuple[Assignment, ...] = ()

    @property
    def turns(self) -> int:
        """How many groups of engines run one after the other."""
        return 1 + max((place.turn for place in self.places), default=0)
