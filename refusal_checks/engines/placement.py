"""Where engines run: which devices each one gets, and whether all run at the same time.

The rule: each engine gets GPUs of its own if there are enough (split); else all share the devices
if they fit (together); else the candidate's engine runs first and the judge's after it (turns).
What the user says, in the run's settings or by the engine's own arguments, wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from refusal_checks.core.errors import UserError
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment, Parallel

Kind = Literal["none", "one", "together", "turns", "split"]
"""``none``: no engine starts; ``one``: a single engine; ``together``: all at the same time on the
same devices; ``turns``: the candidate's engine first, the judge's after it; ``split``: all at the
same time, each on devices of its own."""

Wanted = Literal["auto", "together", "turns", "split"]

GPU_USABLE = 0.9
"""Share of a GPU's memory that engines may plan with if others use none of it."""

SPARE = 0.05
"""Share that stays free beside what others use: vLLM does not start if less is free than its
share, and CUDA itself takes a part of that."""

GPU_OVERHEAD = 4.0
"""GiB that an engine needs on each GPU besides weights: CUDA itself, activations, a small cache."""

ENCODER, ENCODER_OVERHEAD = 1.0, 2.0
"""GiB of weights below which a classifier is an encoder, and what that needs besides: it has no
cache (on an H200 vLLM took 1.1 beside 0.2 of weights, though it was allowed 45% of the card)."""

CPU_USABLE = 0.8
"""Share of the free memory that engines may plan with."""

CPU_OVERHEAD = 2.5
"""GiB that each rank of an engine needs besides weights and cache: vLLM and torch themselves."""

TOY = 0.1
"""GiB of weights below which a model's server spends more on HTTP and Python than on computing."""

FEW = 4
"""Cores up to which one less to compute with costs more than a server that has to wait for one."""


@dataclass(frozen=True, eq=False)
class EngineNeed:
    """An engine that is to run. Two with the same needs and the same model stay different.

    Attributes:
        parallel: what the user's arguments say.
        weights: GiB of the model's weight files; None if unknown.
        answers, judges: what it does in the run.
        classifies: it reads each text once and writes nothing.
    """

    model: str
    parallel: Parallel = field(default_factory=Parallel)
    weights: float | None = None
    answers: bool = True
    judges: bool = False
    classifies: bool = False

    @property
    def name(self) -> str:
        """The model, for people: the end of a path."""
        return "/".join(self.model.split("/")[-2:])

    @property
    def is_encoder(self) -> bool:
        return self.classifies and self.weights is not None and self.weights < ENCODER

    @property
    def shown(self) -> str:
        size = (
            "weights of unknown size"
            if self.weights is None
            else f"{self.weights:.1f} GiB"
        )
        return f"{self.name} ({size})"


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

    @property
    def copies(self) -> int:
        """The most copies of a model that it adds to those that the user's arguments ask for."""
        return max((place.copies for place in self.places), default=1)


Places = dict[EngineNeed, Assignment]


def choose(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> Placement:
    """Choose where engines run; depends on its arguments alone.

    An engine that a cluster or several machines carry is not placed here.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    hardware = _Cores(devices) if devices.kind == "cpu" else _Gpus(devices)
    here = [need for need in needs if not need.parallel.is_elsewhere]
    kind, why = _kind(hardware, here, needs, request)
    places = dict.fromkeys(needs, Assignment())
    for turn in (0, 1):
        group = [
            need for need in needs if turn == int(kind == "turns" and not need.answers)
        ]
        placed = [need for need in group if need in here]
        shares = kind == "together" or (
            kind == "turns" and not hardware.fit_apart(placed)
        )
        is_shared = len(placed) > 1 and shares
        places |= (
            hardware.together(placed) if is_shared else hardware.apart(placed, request)
        )
        places |= {need: replace(places[need], turn=turn) for need in group}
    models = [need.shown + places[need].shown(len(devices.ids)) for need in needs]
    why = f"on {hardware.name}: {'as engine.placement says' if request.kind == kind else why}"
    if not here:
        why = "Ray, or the machines that their arguments name, carry them"
    return Placement(
        kind, ", ".join([*models, why]), tuple(places[need] for need in needs)
    )


def _kind(
    hardware: _Cores | _Gpus,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> tuple[Kind, str]:
    if len(needs) == 1:
        return "one", "the only engine"
    shared = any(need.answers and need.judges for need in needs)
    if request.kind == "turns" and shared:
        raise UserError(
            "engine.placement=turns: the candidate's engine also serves a judge, so both turns "
            "need it; use --set engine.placement=together, or split"
        )
    can_take_turns = any(need.answers for need in needs) and not shared
    if request.kind in ("together", "split") or (
        request.kind == "turns" and can_take_turns
    ):
        return request.kind, ""
    if request.candidate_devices or request.judge_devices or hardware.fit_apart(here):
        return "split", "each has its own"
    if hardware.fit_together(here):
        return "together", "there is room for all at once"
    if request.at_once or not can_take_turns:
        return (
            "together",
            "they may not fit at once, but all are needed at the same time",
        )
    return (
        "turns",
        "too large for both at once, so the candidate answers, then the judge judges",
    )


class _Gpus:
    """GPUs, or devices of which nothing is known."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._ids = devices.ids
        self._memory = devices.memory or math.inf
        self._usable = max(SPARE, min(GPU_USABLE, 1 - devices.used - SPARE))
        busy = ",".join(devices.busy)
        self._busy = busy and (
            f" (others use GPU {busy}; name it in CUDA_VISIBLE_DEVICES to use it)"
        )
        size = f" of {devices.memory:.0f} GiB" if devices.memory else ""
        known = f"GPU {', '.join(self._ids)}{size}{self._busy}"
        self.name = known if self._ids else "devices that only the engine knows"

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        count = len(self._ids)
        return sum(self._least(need, count) for need in needs) <= count

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if the engines can share the GPUs; unknown weights count nothing."""
        return self._fit(needs, self._cut(needs, len(self._ids)))

    def _fit(self, needs: Sequence[EngineNeed], cut: int) -> bool:
        """True if models fit that are cut over this number of GPUs each."""
        least = {
            need: ENCODER_OVERHEAD if need.is_encoder else GPU_OVERHEAD
            for need in needs
        }
        sizes = {need: _weights(need, cut) + least[need] for need in needs}
        return sum(sizes.values()) <= self._usable * self._memory and all(
            size <= (need.parallel.memory or 1) * self._memory
            for need, size in sizes.items()
        )

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

    def together(self, needs: Sequence[EngineNeed]) -> Places:
        """Put each model on all of the GPUs, cut or in copies.

        Each gets a share of the memory unless the user names one: its weights and an equal part of
        what is left, of which an encoder, which has no cache to fill, gets what it needs at most.
        """
        cut = self._cut(needs, len(self._ids))
        free = [need for need in needs if not need.parallel.memory]
        usable = max(
            SPARE, self._usable - sum(need.parallel.memory or 0.0 for need in needs)
        )
        sizes = {need: _weights(need, cut) / self._memory for need in free}
        total = sum(sizes.values())
        left, shrunk = (
            max(0.0, usable - total),
            min(1.0, usable / total) if total else 1.0,
        )
        part = min(left / max(1, len(free)), ENCODER_OVERHEAD / self._memory)
        few = {need: part for need in free if need.is_encoder and self._devices.memory}
        part = (left - sum(few.values())) / max(1, len(free) - len(few))
        places = {}
        for need in needs:
            share = (
                max(0.01, shrunk * sizes[need] + few.get(need, part))
                if need in sizes
                else None
            )
            is_known = need.weights is not None and self._devices.memory
            places[need] = self._place(need, self._ids, cut if is_known else 0, share)
        return places

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> Places:
        """Give each engine GPUs of its own, a single one all; spare ones go to the largest load."""
        places: Places = {}
        share = self._usable if self._usable < GPU_USABLE else None
        for ids, group in _pools(self._devices, needs, request).items():
            least = {need: self._least(need, len(ids)) for need in group}
            counts = dict(least) if ids or len(group) > 1 else dict.fromkeys(group, 0)
            if sum(counts.values()) > len(ids):
                raise UserError(
                    f"{', '.join(need.name for need in group)}: {sum(least.values())} GPUs needed "
                    f"and {len(ids)} there ({', '.join(ids) or 'none'}): give more with "
                    "candidate.devices or judge.devices, or use --set engine.placement=turns, or "
                    f"together{self._busy}"
                )
            # It can use more if the user gave no number, and what one copy needs is known.
            able = [
                need
                for need in group
                if not need.parallel.is_given
                and (need.weights is not None or request.devices_of(need))
            ]
            while more := [
                n for n in able if least[n] <= len(ids) - sum(counts.values())
            ]:
                most = max(more, key=lambda need: (need.weights or 1.0) / counts[need])
                counts[most] += least[most]
            start = 0
            for need, count in counts.items():
                cut = count if need.weights is None else least[need]
                own = None if need.parallel.memory else share
                places[need] = self._place(need, ids[start : start + count], cut, own)
                start += count
        return places

    def _place(
        self, need: EngineNeed, ids: tuple[str, ...], cut: int, share: float | None
    ) -> Assignment:
        """Copies of a model on these GPUs, each cut over some of them; one copy if ``cut`` is 0."""
        is_all = ids == self._ids and not self._devices.busy
        place = Assignment(() if is_all else ids, memory=share and round(share, 2))
        if need.parallel.is_given or not cut:
            return place
        return replace(place, shards=cut, copies=max(1, len(ids) // cut))


def _weights(need: EngineNeed, cut: int) -> float:
    """GiB on each GPU of a model that is cut over this many unless the user says; 0 if unknown."""
    parallel = need.parallel
    return (need.weights or 0.0) / (parallel.shards if parallel.is_given else cut)


class _Cores:
    """The cores of a CPU."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        count = len(devices.ids)
        self.name = f"{count} CPU core{'s' * (count != 1)} with {devices.memory or 0:.0f} GiB free"

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        return False  # only the user splits cores; see ``fit_together``

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        enough = sum(map(_needed, needs)) <= CPU_USABLE * (
            self._devices.memory or math.inf
        )
        return enough and len(self._devices.ids) >= len(
            [n for n in needs if not n.classifies]
        )

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> Places:
        places: Places = {}
        for ids, group in _pools(self._devices, needs, request).items():
            if len(ids) < len(group):
                names = ", ".join(need.name for need in group)
                raise UserError(
                    f"{names}: {len(group)} engines for {len(ids)} cores: use --set "
                    "engine.placement=turns"
                )
            for number, need in enumerate(group):
                places[need] = self._place(need, ids[number :: len(group)], needs)
        return places

    def together(self, needs: Sequence[EngineNeed]) -> Places:
        """Share a few cores between all engines, which are rarely busy at once; divide more.

        On two cores, two models of 135 M parameters that share both are 1.5 times as fast as with a
        core each. A classifier beside a model that writes works a small part of the time: it has
        all cores, and one thread.
        """
        ids = self._devices.ids
        busy = [need for need in needs if not need.classifies] or needs
        share = len(ids) <= FEW and all(need.parallel.ranks == 1 for need in busy)
        if share or len(ids) < len(busy):
            places = {
                n: replace(self._place(n, ids, needs), shared=len(busy) > 1)
                for n in busy
            }
        else:
            places = self.apart(busy, PlacementRequest())
        for need in needs:
            if need not in places:
                places[need] = replace(self._place(need, ids, needs), threads=1)
        return places

    def _place(
        self, need: EngineNeed, ids: Sequence[str], needs: Sequence[EngineNeed]
    ) -> Assignment:
        """The cache is half of the weights' size, as far as there is room; at least 1 GiB.

        As many threads as cores, or one less: HTTP and the scheduler have work to do as well. On
        two cores a second thread makes a model of 135 M parameters 1.6 times as fast. vLLM's worker
        processes, of engines with several ranks, leave the scheduler to another process.
        """
        ranks = need.parallel.ranks
        free = CPU_USABLE * (self._devices.memory or 0) - sum(map(_needed, needs))
        room = 1 + free / sum(other.parallel.ranks for other in needs)
        wanted = (
            4.0 if need.weights is None else need.weights / need.parallel.shards / 2
        )
        cache = max(1, math.floor(min(room, math.ceil(wanted))))
        usable = max(1, math.floor(_usable_cores(self._devices, len(ids))))
        is_toy = need.weights is not None and need.weights < TOY
        threads = max(ranks, usable - (ranks == 1 and (is_toy or usable > FEW)))
        return Assignment(cores=tuple(map(int, ids)), cache=cache, threads=threads)


def _usable_cores(devices: Devices, count: int) -> float:
    """Cores' worth of time that an engine on this many of the cores has."""
    quota = len(devices.ids) if devices.quota is None else devices.quota
    return count * min(1.0, quota / len(devices.ids))


def _needed(need: EngineNeed) -> float:
    """GiB of an engine with the smallest cache."""
    return (need.weights or 0.0) * need.parallel.copies + (
        CPU_OVERHEAD + 1
    ) * need.parallel.ranks


def fit_beside(
    devices: Devices,
    more: Sequence[tuple[EngineNeed, Assignment]],
    running: Sequence[tuple[EngineNeed, Assignment]],
) -> bool:
    """True if more engines can load on a CPU where others work, whose caches may still fill.

    Each needs weights of a known size, memory for them, and a core without a computing thread.
    """
    for need, place in more:
        spare = _usable_cores(devices, len(place.cores)) - (place.threads or math.inf)
        if not need.weights or spare < 1:
            return False
    caches = sum(
        (place.cache or 0) * need.parallel.ranks for need, place in (*more, *running)
    )
    others = sum(_needed(need) - need.parallel.ranks for need, _ in more)
    return caches + others <= CPU_USABLE * (devices.memory or math.inf)


def _pools(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> dict[tuple[str, ...], list[EngineNeed]]:
    """Pair the devices that the user gave with their engines, and the rest with the others."""
    given = {"candidate": request.candidate_devices, "judge": request.judge_devices}
    for role, ids in given.items():
        for device in ids:
            if devices.kind != "unknown" and device not in (
                *devices.ids,
                *devices.busy,
            ):
                known = ",".join(devices.ids)
                raise UserError(
                    f"{role}.devices: no device {device} here; known: {known}"
                )
    if both := set(request.candidate_devices) & set(request.judge_devices):
        raise UserError(
            f"candidate.devices and judge.devices both name {', '.join(sorted(both))}: give "
            "each engine its own, or leave both out"
        )
    taken = {*request.candidate_devices, *request.judge_devices}
    rest = tuple(device for device in devices.ids if device not in taken)
    pools: dict[tuple[str, ...], list[EngineNeed]] = {}
    for need in needs:
        pools.setdefault(request.devices_of(need) or rest, []).append(need)
    return pools
