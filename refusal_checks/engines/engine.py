"""What an engine is started with, and where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.models.names import Served


@dataclass(frozen=True)
class Parallel:
    """What an engine's arguments say about devices and their memory.

    Attributes:
        shards, copies: devices that one copy of the model is split over, and copies on this
            machine.
        is_given: True if the arguments say anything about either.
        is_elsewhere: True if a cluster or several machines decide where it runs.
        memory: share of each device's memory; None if not given.
        has_cache: True if they give the size of the cache.
        sequences: answers that are generated at once; None if not given.
        is_unusual: True if only the engine itself can tell how much memory it needs: it changes
            the weights' precision, adds adapters or a second model, or takes larger batches.
    """

    shards: int = 1
    copies: int = 1
    is_given: bool = False
    is_elsewhere: bool = False
    memory: float | None = None
    has_cache: bool = False
    sequences: int | None = None
    is_unusual: bool = False

    @property
    def ranks(self) -> int:
        return self.shards * self.copies


@dataclass(frozen=True)
class Assignment:
    """Where one engine runs; the user's own arguments win over it.

    Attributes:
        devices: GPUs that it may see, as in CUDA_VISIBLE_DEVICES; empty for all.
        cores: CPU cores that its processes may run on; empty for all.
        memory: share of each GPU's memory; None for the engine's default.
        shards: GPUs that the model is split over.
        cache: GiB for each rank's cache. None leaves it to the engine, which measures on a GPU
            what its share of the memory leaves.
        is_eager: True if it shall start at once rather than compile for speed.
        threads: compute threads on a CPU, of all ranks together; None for the engine's default.
        shared: True if other engines compute on the same cores, so that no thread may busy-wait.
        turn: 0, or 1 for an engine that starts once those of turn 0 have stopped.
    """

    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    memory: float | None = None
    shards: int = 1
    cache: float | None = None
    is_eager: bool = False
    threads: int | None = None
    shared: bool = False
    turn: int = 0

    def shown(self, count: int) -> str:
        """Describe its share of the ``count`` devices."""
        own: Sequence[object] = self.devices
        if not own and len(self.cores) < count:
            own = self.cores
        words = ""
        if own:
            words += f" on {','.join(map(str, own))}"
        if self.shards > 1:
            words += f" cut over {self.shards} GPUs"
        if self.memory:
            words += f" with {self.memory:.0%} of the memory"
        return words


WHOLE_MACHINE = Assignment()
"""An engine that has the machine for itself."""


@dataclass(frozen=True)
class EngineSpec:
    """All that a server process depends on; models with equal specs share one.

    Attributes:
        model: a folder or a Hugging Face id.
        args: the user's arguments, verbatim.
        program: the command of ``engine.command``, which replaces vLLM's own program.
    """

    model: str
    args: tuple[str, ...] = ()
    program: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Served) -> EngineSpec:
        return cls(model.path, model.args, model.program)
