"""What a placement is made from, and what it decides for each engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

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
        memory: GiB, of the smallest GPU, or free for engines on a CPU; None if unknown.
        busy: GPUs that were left out because others use them.
        used: share of a device's memory that others hold, the largest of them, in [0, 1].
        quota: cores' worth of time that a container may use at once; None without a limit.
    """

    kind: Literal["gpu", "cpu", "unknown"]
    ids: tuple[str, ...] = ()
    memory: float | None = None
    busy: tuple[str, ...] = ()
    used: float = 0.0
    quota: float | None = None


@dataclass(frozen=True)
class Parallel:
    """What an engine's arguments say of devices.

    Attributes:
        shards: devices that one copy of the model is cut over; copies: of the model on this
            machine; both 1 unless the arguments say otherwise.
        is_given: True if they say anything of that.
        is_elsewhere: True if a cluster, or several machines, decide where it runs.
        memory: the named share of a device's memory; None if none is named.
    """

    shards: int = 1
    copies: int = 1
    is_given: bool = False
    is_elsewhere: bool = False
    memory: float | None = None

    @property
    def ranks(self) -> int:
        """Devices that it needs on this machine."""
        return self.shards * self.copies


@dataclass(frozen=True)
class EngineNeed:
    """An engine that is to run.

    Attributes:
        model: what it serves.
        parallel: what the user's arguments say.
        weights: GiB of the model's weight files; None if unknown.
        answers, judges: what it does in the run.
    """

    model: str
    parallel: Parallel = Parallel()
    weights: float | None = None
    answers: bool = True
    judges: bool = False

    @property
    def name(self) -> str:
        """The model, for people: the end of a path."""
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
        at_once: True if candidate and judge must run at the same time.
    """

    kind: Wanted = "auto"
    candidate_devices: tuple[str, ...] = ()
    judge_devices: tuple[str, ...] = ()
    at_once: bool = False

    def devices_of(self, need: EngineNeed) -> tuple[str, ...]:
        """The devices that the user gave an engine."""
        return self.candidate_devices if need.answers else self.judge_devices


@dataclass(frozen=True)
class Assignment:
    """Where one engine runs; the user's own arguments win over it.

    Attributes:
        devices: GPUs that it may see, as CUDA_VISIBLE_DEVICES names them; empty for all.
        cores: of a CPU, which its processes may run on; empty for all.
        memory: share of each GPU's memory; None for the engine's default.
        shards: GPUs that each copy of the model is cut over.
        copies: of the model, as far as the placement adds them.
        cache: GiB for the cache of each rank on a CPU; None for the engine's default.
        threads: that compute on a CPU, all ranks together; None for the engine's default.
        turn: 0, or 1 for an engine that starts when those of turn 0 have stopped.
    """

    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    memory: float | None = None
    shards: int = 1
    copies: int = 1
    cache: int | None = None
    threads: int | None = None
    turn: int = 0

    def shown(self, count: int) -> str:
        """Its part of this number of devices, for people."""
        cores = self.cores if len(self.cores) < count else ()
        parts = [
            self.devices and f"on {','.join(self.devices)}",
            cores and f"on {','.join(map(str, cores))}",
            self.shards > 1 and f"cut over {self.shards} GPUs",
            self.copies > 1 and f"in {self.copies} copies",
            self.memory and f"with {self.memory:.0%} of the memory",
        ]
        return " ".join(f" {part}" for part in parts if part)


@dataclass(frozen=True)
class Placement:
    """Where each engine runs; ``places`` are in the order of the needs.

    Attributes:
        why: one line for people.
    """

    kind: Kind
    why: str
    places: tuple[Assignment, ...] = ()

    @property
    def turns(self) -> int:
        """Their number, one after the other."""
        return 1 + max((place.turn for place in self.places), default=0)

    @property
    def copies(self) -> int:
        """The most copies of a model that it adds to those that the user's arguments ask for."""
        return max((place.copies for place in self.places), default=1)

    def describe(self) -> dict[str, Any]:
        """The placement for manifests; JSON-like."""
        return {"kind": self.kind, "why": self.why, "places": [asdict(p) for p in self.places]}
