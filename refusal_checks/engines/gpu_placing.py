"""Place engines on GPUs, or on devices of which nothing is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core import text
from refusal_checks.core.errors import UserError
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.placement import EngineNeed, PlacementRequest
from refusal_checks.engines.pools import Places, pools

USABLE = 0.9
"""Share of a GPU's memory that engines may plan with if others use none of it."""

SPARE = 0.05
"""Share that stays free beside what others use: vLLM does not start if less is free than its
share, and CUDA itself takes a part of that."""

OVERHEAD = 4.0
"""GiB that an engine needs on each GPU besides weights: CUDA itself, activations, a small cache."""

ENCODER_OVERHEAD = 2.0
"""GiB that an encoder needs besides weights: it has no cache (on an H200 vLLM took 1.1 beside 0.2
of weights, though it was allowed 45% of the card)."""

LARGE = 70.0
"""GiB of a GPU from which vLLM computes more at once unless told otherwise: batches of 8,192 tokens
in place of 2,048, and 1,024 answers in place of 256 (``EngineArgs.get_batch_defaults``)."""

WORKING = {True: 3.0, False: 1.5}
"""GiB of CUDA itself, activations and CUDA graphs, on a large GPU (True) and on a smaller one."""

LOGITS = 5 * 4
"""Bytes that choosing the next token takes, for each answer and token of the vocabulary: vLLM holds
32-bit probabilities, sorted ones and their places (of 64 bits) at the same time."""

VOCABULARY = 262_144
"""Tokens of a model of which nothing is known; few have more."""

ENCODER_WORKING = 1.5
"""The same as ``WORKING`` for an encoder."""

LEAST_CACHE = 1.0
"""GiB of a cache below which the engine is to measure what it can have: it may be a little more."""

LEAST_WORKING = 1.0
"""GiB that every engine takes on each GPU besides its weights, whatever it is told."""

LEAST_SHARE = 0.01
"""Share of the memory that an engine is given at least."""


class Gpus:
    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._ids = devices.ids
        # GiB of each; infinite where it is unknown, so that everything fits.
        self._memory = devices.memory or math.inf
        self._usable = max(SPARE, min(USABLE, 1 - devices.used - SPARE))
        self._busy = ""
        if devices.busy:
            busy = ",".join(devices.busy)
            self._busy = (
                f" (others use GPU {busy}; name it in CUDA_VISIBLE_DEVICES to use it)"
            )

    @property
    def name(self) -> str:
        if not self._ids:
            return "devices that only the engine knows"
        name = f"GPU {', '.join(self._ids)}"
        if self._devices.memory:
            name += f" of {self._devices.memory:.0f} GiB"
        return name + self._busy

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        """True if there are enough GPUs for each to have its own."""
        count = len(self._ids)
        return sum(self._least(need, count) for need in needs) <= count

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if the engines can share the GPUs; unknown weights count as nothing."""
        return self._fit(needs, self._cut(needs, len(self._ids)))

    def _fit(self, needs: Sequence[EngineNeed], cut: int) -> bool:
        """True if the models fit when each is split over this many GPUs."""
        total, named = 0.0, 0.0
        for need in needs:
            overhead = ENCODER_OVERHEAD if need.is_encoder else OVERHEAD
            size = weights_on_each(need, cut) + overhead
            if need.parallel.memory:
                share = need.parallel.memory * self._memory
                if size > share:
                    return False
                size = share  # an engine takes all that it is given
                named += need.parallel.memory
            total += size
        # The user's shares may take what placement itself would leave free.
        room = min(1 - self._devices.used, max(self._usable, named))
        return total <= room * self._memory

    def _cut(self, needs: Sequence[EngineNeed], count: int) -> int:
        """The fewest GPUs to split models over: a power of two, at most ``count``.

        No model is split over slices: a process sees one.
        """
        cut = 1
        if self._devices.are_slices:
            return cut
        while not self._fit(needs, cut) and 2 * cut <= count:
            cut *= 2
        return cut

    def _require_room(
        self, needs: Sequence[EngineNeed], cut: int, request: PlacementRequest
    ) -> None:
        """Raise UserError if it is certain that the models do not fit at the same time.

        Of engines whose arguments change the size of weights, only the named shares are certain.
        """
        if not self._devices.memory:
            return
        planned, total = 0.0, 0.0
        for need in needs:
            least = 0.0
            if not need.parallel.is_unusual:
                least = weights_on_each(need, cut) + LEAST_WORKING
            named = (need.parallel.memory or 0.0) * self._memory
            total += max(named, least)
            # A cache of a given size may exceed the share.
            if need.parallel.has_cache:
                continue
            if not named:
                planned += least
            elif least > named:
                raise UserError(
                    f"give more than --gpu-memory-utilization {need.parallel.memory:g}: "
                    f"{need.shown} does not fit into {named:.1f} GiB of {self.name}"
                )
        has_memory = total <= (1 - self._devices.used) * self._memory
        if has_memory and planned <= self._left(needs) * self._memory:
            return
        names = " and ".join(need.shown for need in needs)
        where = f"does not fit on {self.name}"
        if len(needs) > 1:
            where = f"do not fit on {self.name} at the same time"
        raise UserError(f"{self._remedy(needs, has_memory, request)}: {names} {where}")

    def _remedy(
        self, needs: Sequence[EngineNeed], has_memory: bool, request: PlacementRequest
    ) -> str:
        """What to do about models that do not fit, though their GPUs may have the memory."""
        shares = [need.parallel.memory for need in needs if need.parallel.memory]
        if shares:
            return f"give less than --gpu-memory-utilization {max(shares):g}"
        if len(needs) == 1 and has_memory:
            share = f"--gpu-memory-utilization {self._usable:.2g}"
            return f"give more than {share}, or use a smaller model"
        if len(needs) == 1:
            return "use a smaller model, or more or larger GPUs"
        if all(need.judges for need in needs):  # which have the same turn
            return "use a smaller judge, or more or larger GPUs"
        return "use --set engine.placement=turns"

    def _require_ranks(self, needs: Sequence[EngineNeed], ids: Sequence[str]) -> None:
        """Raise UserError if arguments spread a model over more GPUs than these."""
        for need in needs:
            ranks = need.parallel.ranks
            if ids and ranks > len(ids):
                raise UserError(
                    f"{_shortage([need], ranks, ids)}: spread it over fewer with its arguments, or "
                    f"give it more{self._busy}"
                )
            if self._devices.are_slices and ranks > 1:
                raise UserError(
                    f"{need.name}: leave out the arguments that spread it over {ranks} devices: "
                    "an engine sees one slice of a GPU"
                )

    def _left(self, needs: Sequence[EngineNeed]) -> float:
        """Share of the memory for the engines whose share the user does not set."""
        named = sum(need.parallel.memory or 0.0 for need in needs)
        return max(SPARE, self._usable - named)

    def _least(self, need: EngineNeed, count: int) -> int:
        """The fewest GPUs that hold an engine, at most ``count``; or the user's own number."""
        if need.parallel.is_given:
            return need.parallel.ranks
        if need.weights is None:
            return 1
        return self._cut([need], count)

    def together(
        self, needs: Sequence[EngineNeed], request: PlacementRequest
    ) -> Places:
        """Put the models on the same GPUs: the fewest that hold them, or those the user says."""
        self._require_ranks(needs, self._ids)
        cut = self._cut(needs, len(self._ids))
        self._require_room(needs, cut, request)
        singles = self._singles(needs)
        shares = self._shares(needs, cut, singles)
        places = {}
        for need in needs:
            is_known = need.weights is not None and self._devices.memory
            own_cut = 0
            if is_known:
                own_cut = 1 if need.is_encoder else cut
            ids = self._ids[:cut] if self._devices.are_slices else self._ids
            places[need] = self._place(need, ids, own_cut, shares.get(need))
        return self._with_caches(places, cut)

    def _singles(self, needs: Sequence[EngineNeed]) -> list[EngineNeed]:
        """Judges beside models that the user spreads, on fewer GPUs than those."""
        if not any(need.parallel.is_given for need in needs):
            return []
        singles = []
        for need in needs:
            is_known = need.weights is not None and self._devices.memory
            if is_known and not (need.answers or need.parallel.is_given):
                singles.append(need)
        return singles

    def _with_caches(self, places: Places, cut: int) -> Places:
        """Add the size of each engine's cache, so that all can load at once.

        Where one of them can't be told its size, they load one after the other, and measure.
        """
        sized = {}
        for need, place in places.items():
            share = place.memory or need.parallel.memory or 0.0
            cache = self._cache(need, cut, share)
            if cache is None and not need.parallel.has_cache:
                return places
            sized[need] = replace(place, cache=cache)
        return sized

    def _cache(self, need: EngineNeed, cut: int, share: float) -> float | None:
        """GiB for the cache in this share of a GPU; None if only measuring can tell.

        That is so if the size of something else is unknown, or if little is left for the cache.
        """
        is_known = need.weights is not None and self._devices.memory
        if not is_known or need.parallel.has_cache or need.parallel.is_unusual:
            return None
        if need.is_mixture and need.parallel.copies > 1:
            return None  # what is not in its experts is on every rank
        taken = weights_on_each(need, cut) + self._working(need)
        cache = math.floor(10 * (share * self._memory - taken)) / 10
        if need.is_encoder:
            return max(0.1, cache)
        return cache if cache >= LEAST_CACHE else None

    def _working(self, need: EngineNeed) -> float:
        """GiB that an engine takes on each GPU besides weights and cache."""
        if need.is_encoder:
            return ENCODER_WORKING
        # vLLM reads the memory of the whole GPU that a slice is cut from.
        is_large = self._memory >= LARGE or self._devices.are_slices
        answers = need.parallel.sequences or (1024 if is_large else 256)
        logits = LOGITS * answers * (need.vocabulary or VOCABULARY) / 2**30
        return WORKING[is_large] + logits

    def _shares(
        self,
        needs: Sequence[EngineNeed],
        cut: int,
        singles: Sequence[EngineNeed],
    ) -> dict[EngineNeed, float]:
        """The share of memory for each engine whose share the user does not set.

        It is the engine's weights and an equal part of the rest. An encoder, which has no cache to
        fill, gets no more than it needs, and a judge on fewer GPUs than the candidate, which leaves
        the rest of its share unused on the others, little more.
        """
        usable = self._left(needs)
        free = [need for need in needs if not need.parallel.memory]
        sizes = {need: weights_on_each(need, cut) / self._memory for need in free}
        total = sum(sizes.values())
        left = max(0.0, usable - total)
        # Weights that may not fit are divided in proportion: the user wants all at once.
        shrunk = min(1.0, usable / total) if total else 1.0

        equal = left / max(1, len(free))
        parts: dict[EngineNeed, float] = {}
        for need in free:
            if need in singles:
                parts[need] = min(equal, 2 * OVERHEAD / self._memory)
            if need.is_encoder and self._devices.memory:
                parts[need] = min(equal, ENCODER_OVERHEAD / self._memory)
        others = max(1, len(free) - len(parts))
        equal_part = (left - sum(parts.values())) / others
        shares = {}
        for need in free:
            share = shrunk * sizes[need] + parts.get(need, equal_part)
            shares[need] = max(LEAST_SHARE, share)
        return shares

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> Places:
        """Give each engine its own GPUs, the fewest that hold it."""
        places: Places = {}
        for ids, group in pools(self._devices, needs, request).items():
            self._require_ranks(group, ids)
            least = {need: self._least(need, len(ids)) for need in group}
            counts = self._counts(ids, group, least, request)
            start = 0
            for need, count in counts.items():
                cut = count if need.weights is None else least[need]
                self._require_room([need], cut or 1, request)
                share = None
                if self._devices.memory and not need.parallel.memory:
                    share = self._usable  # what vLLM takes by itself differs by version
                own = ids[start : start + count]
                places[need] = self._place(need, own, cut, share)
                start += count
        return places

    def _counts(
        self,
        ids: Sequence[str],
        group: Sequence[EngineNeed],
        least: dict[EngineNeed, int],
        request: PlacementRequest,
    ) -> dict[EngineNeed, int]:
        """How many GPUs each engine of a group gets."""
        if not (ids or self._ids) and len(group) == 1:
            return dict.fromkeys(group, 0)
        counts = dict(least)
        if sum(counts.values()) > len(ids):
            raise UserError(
                f"{_shortage(group, sum(least.values()), ids)}: give more with "
                "candidate.devices or judge.devices, or use --set engine.placement=turns, or "
                f"together{self._busy}"
            )

        # A model of unknown size is split over all that the user names for it.
        named = [
            need
            for need in group
            if need.weights is None
            and request.devices_of(need)
            and not (need.parallel.is_given or self._devices.are_slices)
        ]
        left = len(ids) - sum(counts.values())
        for need in named:
            counts[need] += left // len(named)
        return counts

    def _place(
        self, need: EngineNeed, ids: tuple[str, ...], cut: int, share: float | None
    ) -> Assignment:
        """Put a model on GPUs, split over ``cut`` of them; its engine chooses if that is 0."""
        is_split = bool(cut) and not need.parallel.is_given
        if is_split:
            ids = ids[:cut]
        is_all = ids == self._ids and not self._devices.busy
        memory = None if share is None else round(share, 2)
        place = Assignment(
            () if is_all else ids, memory=memory, is_eager=need.is_encoder
        )
        return replace(place, shards=cut) if is_split else place


def _shortage(needs: Sequence[EngineNeed], number: int, ids: Sequence[str]) -> str:
    names = ", ".join(need.name for need in needs)
    needed = text.count(number, "GPU")
    return f"{names}: {needed} needed, {len(ids)} found ({', '.join(ids) or 'none'})"


def weights_on_each(need: EngineNeed, cut: int) -> float:
    """GiB of a model on each GPU, split over this many unless the user sets it; 0 if unknown.

    An encoder is not split. Data-parallel ranks of a mixture divide its experts, which have nearly
    all of its weights, among them.
    """
    parallel = need.parallel
    shards = 1 if need.is_encoder else cut
    if parallel.is_given:
        shards = parallel.ranks if need.is_mixture else parallel.shards
    weights = need.weights or 0.0
    if need.is_halved:
        weights /= 2
    return weights / shards
