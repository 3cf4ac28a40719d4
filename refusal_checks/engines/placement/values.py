"""What a placement is made from, and what it says of each engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from refusal_checks.engines.placement.parallel import Parallel

Kind = Literal["none", "one", "together", "turns", "split"]
"""``none``: no engine starts; ``one``: a single engine; ``together``: all at the same time on the
same devices; ``turns``: the candidate's engine first, the judge's after it; ``split``: all at the
same time, each on devices of its own."""

Wanted = Literal["auto", "together", "turns", "split"]


@dataclass(frozen=True)
class Devices:
    """What engines can run on.

    Attributes:
        kind: ``gpu``, ``cpu``, or ``unknown`` where nothing here tells what there is.
        ids: GPUs as CUDA_VISIBLE_DEVICES names them, or numbers of CPU cores.
        memory: GiB, of the smallest GPU, or that the machine of a CPU has to spare; None where it
            is unknown.
        busy: GPUs that were left out because others use them.
        used: share of a device's memory that others hold, the largest of them, in [0, 1].
    """

    kind: Literal["gpu", "cpu", "unknown"]
    ids: tuple[str, ...] = ()
    memory: float | None = None
    busy: tuple[str, ...] = ()
    used: float = 0.0


@dataclass(frozen=True)
class EngineNeed:
    """An engine that is to run.

    Attributes:
        model: what it serves.
        args: vLLM's arguments, as the user gave them.
        weights: GiB of the model's weight files; None where they are not here yet.
        answers, judges: what it does in the run.
    """

    model: str
    args: tuple[str, ...] = ()
    weights: float | None = None
    answers: bool = True
    judges: bool = False

    @property
    def parallel(self) -> Parallel:
        """How the user's arguments spread it."""
        return Parallel.of(self.args)

    @property
    def name(self) -> str:
        """The model, for people: of a path, the end."""
        return "/".join(self.model.split("/")[-2:])

    @property
    def size(self) -> str:
        """Its weights, for people."""
        return "weights of unknown size" if self.weights is None else f"{self.weights:.1f} GiB"


@dataclass(frozen=True)
class PlacementRequest:
    """What the user wants.

    Attributes:
        candidate_devices, judge_devices: ids; empty leaves them to the placement.
        at_once: whether candidate and judge must run at the same time.
    """

    kind: Wanted = "auto"
    candidate_devices: tuple[str, ...] = ()
    judge_devices: tuple[str, ...] = ()
    at_once: bool = False

    def devices_of(self, demand: EngineNeed) -> tuple[str, ...]:
        """The devices that the user gave an engine."""
        return self.candidate_devices if demand.answers else self.judge_devices


@dataclass(frozen=True)
class Assignment:
    """What one engine is started with, besides what the user says, which wins.

    Attributes:
        args: for vLLM; env: variables.
        devices: GPUs that it may see, as CUDA_VISIBLE_DEVICES names them; empty for all.
        cores: of a CPU, which its processes may run on; empty for all.
        turn: 0, or 1 for an engine that starts when those of turn 0 have stopped.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    turn: int = 0


@dataclass(frozen=True)
class Placement:
    """Where each engine runs; ``places`` are in the order of the demands.

    Attributes:
        why: one line for people.
    """

    kind: Kind
    why: str
    places: tuple[Assignment, ...] = ()

    @property
    def turns(self) -> int:
        """How many there are, one after the other."""
        return 1 + max((place.turn for place in self.places), default=0)

    @property
    def copies(self) -> int:
        """The most copies of a model that it adds to those that the user's arguments ask for."""
        return max((Parallel.of(place.args).copies for place in self.places), default=1)

    def describe(self) -> dict[str, Any]:
        """The placement for manifests; JSON-like."""
        return {"kind": self.kind, "why": self.why, "places": [asdict(p) for p in self.places]}
