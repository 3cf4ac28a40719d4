"""What a placement is made from, and what it decides for each engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from refusal_checks.core.errors import UserError

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


def choose(devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest) -> Placement:
    """Choose where engines run; depends on its arguments alone.

    An engine that a cluster or several machines carry is not placed here.

    Args:
        needs: the engines that are to run, each different.

    Raises:
        UserError: the request cannot be met.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    hardware = Cores(devices) if devices.kind == "cpu" else Gpus(devices)
    here = [need for need in needs if not need.parallel.is_elsewhere]
    kind = _kind(hardware, here, needs, request)
    places = dict.fromkeys(needs, Assignment())
    for turn in (0, 1):
        group = [need for need in needs if turn == int(kind == "turns" and not need.answers)]
        placed = [need for need in group if need in here]
        shared = kind == "together" or (kind == "turns" and not hardware.fit_apart(placed))
        if len(placed) > 1 and shared:
            found = hardware.together(placed)
        else:
            found = hardware.apart(placed, request)
        places |= zip(placed, found, strict=True)
        places |= {need: replace(places[need], turn=turn) for need in group}
    shown = [f"{need.name} ({need.size}){places[need].shown(len(devices.ids))}" for need in needs]
    models = ", ".join(shown)
    if not here:
        why = "Ray, or the machines that their arguments name, carry them"
    elif request.kind == kind:
        why = f"on {hardware.name}: as --placement says"
    else:
        why = f"on {hardware.name}: {_reason(kind, hardware, needs)}"
    return Placement(kind, f"{models}, {why}", tuple(places[need] for need in needs))


def _kind(
    hardware: Cores | Gpus,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> Kind:
    if len(needs) == 1:
        return "one"
    shared = any(need.answers and need.judges for need in needs)
    if request.kind == "turns" and shared:
        raise UserError(
            "--placement turns: the candidate's engine also serves a judge, so both turns need it; "
            "use --placement together, or split"
        )
    can_take_turns = any(need.answers for need in needs) and not shared
    if request.kind in ("together", "split") or (request.kind == "turns" and can_take_turns):
        return request.kind
    if request.candidate_devices or request.judge_devices or hardware.fit_apart(here):
        return "split"
    fits = hardware.fit_together(here) or request.at_once or not can_take_turns
    return "together" if fits else "turns"


def _reason(kind: Kind, hardware: Cores | Gpus, needs: Sequence[EngineNeed]) -> str:
    if kind == "one":
        return "the only engine"
    if kind == "split":
        return "each has its own"
    if kind == "turns":
        return "too large for both at once, so the candidate answers, then the judge judges"
    if hardware.fit_together(needs):
        return "there is room for all at once"
    return "they may not fit at once, but all are needed at the same time"


GPU_USABLE = 0.9
"""Share of a GPU's memory that engines may plan with if others use none of it."""

SPARE = 0.05
"""Share that stays free beside what others use: vLLM does not start if less is free than its
share, and CUDA itself takes a part of that."""

GPU_OVERHEAD = 4.0
"""GiB that an engine needs on each GPU besides weights: CUDA itself, activations, a small cache."""


class Gpus:
    """GPUs, or devices of which nothing is known."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._count = len(devices.ids)
        self._usable = max(SPARE, min(GPU_USABLE, 1 - devices.used - SPARE))

    @property
    def name(self) -> str:
        """The devices, for people."""
        if not self._count:
            return "devices that only the engine knows"
        size = f" of {self._devices.memory:.0f} GiB" if self._devices.memory else ""
        return f"GPU {', '.join(self._devices.ids)}{size}{self._busy}"

    @property
    def _busy(self) -> str:
        busy = ",".join(self._devices.busy)
        return f" (others use GPU {busy}; name it in CUDA_VISIBLE_DEVICES to use it)" * bool(busy)

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        """True if each engine can have GPUs of its own."""
        return sum(self._least(need, self._count) for need in needs) <= self._count

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if the engines can share the GPUs; unknown weights count nothing."""
        return self._fit(needs, self._cut(needs, self._count))

    def _fit(self, needs: Sequence[EngineNeed], cut: int) -> bool:
        """True if models fit that are cut over this number of GPUs each."""
        memory = self._devices.memory
        if memory is None:
            return True
        sizes = [(_weights(need, cut) + GPU_OVERHEAD, need.parallel.memory) for need in needs]
        is_room = sum(size for size, _ in sizes) <= self._usable * memory
        return is_room and all(size <= (share or 1) * memory for size, share in sizes)

    def _cut(self, needs: Sequence[EngineNeed], count: int) -> int:
        """The fewest GPUs to cut models over so that all fit: a power of two, at most ``count``."""
        cut = 1
        while not self._fit(needs, cut) and 2 * cut <= count:
            cut *= 2
        return cut

    def _least(self, need: EngineNeed, count: int) -> int:
        """The fewest GPUs that hold an engine, at most ``count``; or those that the user says."""
        if need.parallel.is_given:
            return need.parallel.ranks
        return 1 if need.weights is None else self._cut([need], count)

    def together(self, needs: Sequence[EngineNeed]) -> list[Assignment]:
        """Put each model on all of the GPUs, cut or in copies."""
        cut = self._cut(needs, self._count)
        shares = self._shares(needs, cut)
        return [
            self._place(
                need,
                self._devices.ids,
                0 if None in (need.weights, self._devices.memory) else cut,
                shares.get(need),
            )
            for need in needs
        ]

    def _shares(self, needs: Sequence[EngineNeed], cut: int) -> dict[EngineNeed, float]:
        """Shares of the memory unless the user names one: the weights and an equal part of what
        is left.
        """  # noqa: D205
        named = [need.parallel.memory for need in needs]
        usable = max(self._usable - sum(filter(None, named)), SPARE)
        sharing = [need for need in needs if need.parallel.memory is None]
        memory = self._devices.memory
        if memory is None:
            return dict.fromkeys(sharing, usable / max(1, len(sharing)))
        weights = {need: _weights(need, cut) for need in sharing}
        total = sum(weights.values())
        left = usable * memory - total
        if left <= 0:
            return {need: usable * size / total for need, size in weights.items()}
        return {need: (size + left / len(sharing)) / memory for need, size in weights.items()}

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> list[Assignment]:
        """Give each engine GPUs of its own, a single one all; spare ones go to the largest load.

        Raises:
            UserError: there are too few.
        """
        share = self._usable if self._usable < GPU_USABLE else None
        places: dict[EngineNeed, Assignment] = {}
        for ids, group in pools(self._devices, needs, request):
            start = 0
            for need, count in zip(group, self._counts(ids, group, request), strict=True):
                cut = count if need.weights is None else self._least(need, count)
                own = None if need.parallel.memory else share
                places[need] = self._place(need, ids[start : start + count], cut, own)
                start += count
        return [places[need] for need in needs]

    def _counts(
        self, ids: Sequence[str], needs: Sequence[EngineNeed], request: PlacementRequest
    ) -> list[int]:
        """How many of these GPUs each engine gets."""
        if not ids and len(needs) == 1:
            return [0]
        least = [self._least(need, len(ids)) for need in needs]
        if sum(least) > len(ids):
            raise UserError(
                f"{', '.join(need.name for need in needs)}: {sum(least)} GPUs needed and "
                f"{len(ids)} there ({', '.join(ids) or 'none'}): give more with "
                "--candidate-devices or --judge-devices, or use --placement turns, or together"
                + self._busy
            )
        counts = list(least)
        while growing := [
            number
            for number, need in enumerate(needs)
            if _may_grow(need, request) and least[number] <= len(ids) - sum(counts)
        ]:
            most = max(growing, key=lambda number: (needs[number].weights or 1.0) / counts[number])
            counts[most] += least[most]
        return counts

    def _place(
        self, need: EngineNeed, ids: tuple[str, ...], cut: int, share: float | None
    ) -> Assignment:
        """Copies of a model on these GPUs, each cut over some of them; one copy if ``cut`` is 0."""
        is_all = ids == self._devices.ids and not self._devices.busy
        place = Assignment(() if is_all else ids, memory=share and round(share, 2))
        if need.parallel.is_given or not cut:
            return place
        return replace(place, shards=cut, copies=max(1, len(ids) // cut))


def _weights(need: EngineNeed, cut: int) -> float:
    """GiB on each GPU of a model that is cut over this many unless the user says; 0 if unknown."""
    parallel = need.parallel
    return (need.weights or 0.0) / (parallel.shards if parallel.is_given else cut)


def _may_grow(need: EngineNeed, request: PlacementRequest) -> bool:
    """True if it can use more GPUs: the user gave no number, and what one copy needs is known."""
    is_known = need.weights is not None or bool(request.devices_of(need))
    return not need.parallel.is_given and is_known


CPU_USABLE = 0.8
"""Share of the free memory that engines may plan with."""

CPU_OVERHEAD = 2.5
"""GiB that each rank of an engine needs besides weights and cache: vLLM and torch themselves."""

TOY = 0.1
"""GiB of weights below which a model's server spends more on HTTP and Python than on computing."""

FEW = 4
"""Cores up to which one less to compute with costs more than a server that has to wait for one."""


class Cores:
    """The cores of a CPU; to share them is to have some each."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    @property
    def name(self) -> str:
        """The cores, for people."""
        count = len(self._devices.ids)
        return f"{count} CPU core{'s' * (count != 1)} with {self._devices.memory or 0:.0f} GiB free"

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        """False: only the user splits cores; see ``fit_together``."""
        return False

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if there are cores and memory for all."""
        enough = sum(map(_needed, needs)) <= CPU_USABLE * (self._devices.memory or math.inf)
        return enough and len(self._devices.ids) >= len(needs)

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> list[Assignment]:
        """Give each engine cores of its own.

        Raises:
            UserError: there are too few.
        """
        places: dict[EngineNeed, Assignment] = {}
        for ids, group in pools(self._devices, needs, request):
            if len(ids) < len(group):
                names = ", ".join(need.name for need in group)
                raise UserError(
                    f"{names}: {len(group)} engines for {len(ids)} cores: use --placement turns"
                )
            for number, need in enumerate(group):
                places[need] = self._place(need, ids[number :: len(group)], needs)
        return [places[need] for need in needs]

    def together(self, needs: Sequence[EngineNeed]) -> list[Assignment]:
        """Divide the cores; if there are fewer than engines, each one has all."""
        if len(self._devices.ids) >= len(needs):
            return self.apart(needs, PlacementRequest())
        return [self._place(need, self._devices.ids, needs) for need in needs]

    def _place(
        self, need: EngineNeed, ids: Sequence[str], needs: Sequence[EngineNeed]
    ) -> Assignment:
        """The cache is half of the weights' size, as far as there is room; at least 1 GiB."""
        free = CPU_USABLE * (self._devices.memory or 0) - sum(map(_needed, needs))
        room = 1 + free / sum(other.parallel.ranks for other in needs)
        wanted = 4.0 if need.weights is None else need.weights / need.parallel.shards / 2
        cache = max(1, math.floor(min(room, math.ceil(wanted))))
        threads = self._threads(need, len(ids))
        return Assignment(cores=tuple(map(int, ids)), cache=cache, threads=threads)

    def _threads(self, need: EngineNeed, cores: int) -> int:
        """As many as it has cores, or one less: HTTP and the scheduler have work to do as well.

        On two cores a second thread makes a model of 135 M parameters 1.6 times as fast. vLLM's
        worker processes, of engines with several ranks, leave the scheduler to another process.
        """
        if self._devices.quota is not None:
            share = self._devices.quota * cores / len(self._devices.ids)
            cores = min(cores, max(1, math.floor(share)))
        is_toy = need.weights is not None and need.weights < TOY
        spares = need.parallel.ranks == 1 and (is_toy or cores > FEW)
        return max(need.parallel.ranks, cores - spares)


def _needed(need: EngineNeed) -> float:
    """GiB of an engine with the smallest cache."""
    return (need.weights or 0.0) * need.parallel.copies + (CPU_OVERHEAD + 1) * need.parallel.ranks


def fit_beside(
    devices: Devices,
    more: Sequence[tuple[EngineNeed, Assignment]],
    running: Sequence[tuple[EngineNeed, Assignment]],
) -> bool:
    """True if more engines can load where others work, whose caches may still fill.

    Each needs weights of a known size, memory for them, and a core without a computing thread.

    Args:
        devices: with the memory that is free while the others run.
    """
    if not all(need.weights and _has_spare_core(place, devices) for need, place in more):
        return False
    caches = sum((place.cache or 0) * need.parallel.ranks for need, place in (*more, *running))
    others = sum(_needed(need) - need.parallel.ranks for need, _ in more)
    return caches + others <= CPU_USABLE * (devices.memory or math.inf)


def _has_spare_core(place: Assignment, devices: Devices) -> bool:
    usable = float(len(place.cores))
    if devices.quota is not None:
        usable *= min(1.0, devices.quota / len(devices.ids))
    return place.threads is not None and place.threads + 1 <= usable


def pools(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> list[tuple[tuple[str, ...], list[EngineNeed]]]:
    """Pair the devices that the user gave with the engines for them, then the rest with the others.

    Raises:
        UserError: a device is not there, or is given twice.
    """
    given = {"candidate": request.candidate_devices, "judge": request.judge_devices}
    for role, ids in given.items():
        for device in ids:
            if devices.kind != "unknown" and device not in (*devices.ids, *devices.busy):
                known = ",".join(devices.ids)
                raise UserError(f"--{role}-devices: no device {device} here; known: {known}")
    both = set(request.candidate_devices) & set(request.judge_devices)
    if both:
        raise UserError(
            f"--candidate-devices and --judge-devices both name {', '.join(sorted(both))}: give "
            "each engine its own, or leave both out"
        )
    taken = {device for ids in given.values() for device in ids}
    rest = tuple(device for device in devices.ids if device not in taken)
    found = [
        (ids, [need for need in needs if request.devices_of(need) == ids])
        for ids in (*filter(None, given.values()), ())
    ]
    return [(ids or rest, group) for ids, group in found if group]
