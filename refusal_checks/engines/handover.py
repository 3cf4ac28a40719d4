"""What the engines of one run are to the next: some go on, and others leave it their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from refusal_checks.engines.base import WHOLE_MACHINE, EngineSpec
from refusal_checks.engines.placement import cores, devices, weights
from refusal_checks.engines.placement.values import Assignment, EngineNeed
from refusal_checks.engines.process import EngineProcess
from refusal_checks.models.identity import Model
from refusal_checks.models.spec import Served


@dataclass(frozen=True)
class Tenant:
    """An engine, what it needs, and where it runs or is to run."""

    engine: EngineProcess
    need: EngineNeed
    place: Assignment = WHOLE_MACHINE

    @classmethod
    def of(cls, engine: EngineProcess, candidate: Model, judges: Iterable[Model]) -> Tenant:
        """An engine of a run with these models, not placed yet."""
        spec, kind = engine.spec, engine.engine

        def serves(model: Model) -> bool:
            return isinstance(model, Served) and EngineSpec.of(model) == spec

        need = EngineNeed(
            spec.model,
            kind.parallel(spec.args),
            weights.gib(spec.model, *kind.weights_at(spec.args)),
            answers=serves(candidate),
            judges=any(map(serves, judges)),
        )
        return cls(engine, need)

    def can_follow(self, other: Tenant) -> bool:
        """True if it fits where another one is: they need as much and are of one kind."""
        needs = [replace(each.need, model="") for each in (self, other)]
        of_a_kind = needs[0] == needs[1] and self.engine.spec.engine == other.engine.spec.engine
        return self.engine is other.engine or of_a_kind


def followed(before: Sequence[Tenant], wanted: Sequence[Tenant]) -> list[Tenant]:
    """The wanted engines in the places of those before; none if they do not all fit.

    Those before must all be running and at the same time, else their places may not be free.
    """
    in_turns = any(tenant.place.turn for tenant in before)
    if in_turns or len(wanted) != len(before):
        return []
    pairs = list(zip(wanted, before, strict=True))
    fit = all(old.engine.is_running() and new.can_follow(old) for new, old in pairs)
    return [replace(new, place=old.place) for new, old in pairs] if fit else []


def early(before: Sequence[Tenant], wanted: Sequence[Tenant]) -> list[Tenant]:
    """Those of the wanted engines that can load while the ones before still work, in their places.

    Only on a CPU, with memory and a core to spare. On a GPU engines hold all the memory that they
    may have; and without a spare core the work takes longer by as much as the start is hidden.
    """
    everyone = (*before, *wanted)
    if not all(tenant.engine.engine.runs_on_cpu() for tenant in everyone):
        return []
    running = [tenant.engine for tenant in before]
    new = [each for each in followed(before, wanted) if each.engine not in running]
    places = [[(each.need, each.place) for each in group] for group in (new, before)]
    return new if cores.fit_beside(devices.cpu(), *places) else []
