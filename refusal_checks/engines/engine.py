"""The interface of inference engines: all that the package needs to know of vLLM or another server.

An engine is one file in ``kinds/`` that defines ``ENGINE``, an instance of a subclass of
``Engine``; ``--engine`` takes the file's name. A method with a default need not be overridden.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from refusal_checks.core.settings import CONNECTIONS
from refusal_checks.engines.environment import inherited
from refusal_checks.models.client.capabilities import ALL, Capabilities
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
        shards: GPUs that each copy of the model is split over.
        copies: copies of the model that the placement adds.
        cache: GiB for each rank's cache. None leaves it to the engine, which measures on a GPU
            what its share of the memory leaves.
        is_eager: True if it shall start at once rather than compile for speed.
        threads: compute threads on a CPU, of all ranks together; None for the engine's default.
        shared: True if other engines compute on the same cores, so that no thread may busy-wait.
        turn: 0, or 1 for an engine that starts once those of turn 0 have stopped.
        can_sleep: True if it is started so that it can leave the GPU and come back.
    """

    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    memory: float | None = None
    shards: int = 1
    copies: int = 1
    cache: float | None = None
    is_eager: bool = False
    threads: int | None = None
    shared: bool = False
    turn: int = 0
    can_sleep: bool = False

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
        if self.copies > 1:
            words += f" in {self.copies} copies"
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
        engine: name of the kind of engine.
        program: the command of ``engine.command``, which replaces the engine's own program.
    """

    model: str
    args: tuple[str, ...] = ()
    engine: str = "vllm"
    program: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Served) -> EngineSpec:
        return cls(model.path, model.args, model.engine, model.program)


class SleepPaths(NamedTuple):
    """Where a server is told to leave its GPU and to come back, and what says that it is away.

    Attributes:
        sleep, wake: paths of POST requests, answered once it is done.
        state: path of a GET request with a JSON object whose ``is_sleeping`` is true or false.
        probes: POST requests without the model's name, of which the server answers the first that
            it can with the same numbers whenever its weights are the same.
    """

    sleep: str
    wake: str
    state: str
    probes: tuple[tuple[str, Mapping[str, Any]], ...]


class Engine(ABC):
    """A kind of engine: an OpenAI-compatible server that this package can start.

    Attributes:
        title: its name for people.
        modules: Python modules that it needs; the first one has the ``__version__``.
        packages: distributions whose versions the manifest records.
        remedy: how to install it.
        program: command that starts the server; ``arguments`` follow it.
        health: path that returns status 200 once the model is loaded.
        key_variable: environment variable with the API key; empty if it takes no key.
        noise: pattern of log lines that never explain why the server ended.
        vital: prefix of the names of child processes without which the server is useless, though it
            may live on; empty if there are none.
        at_once: most concurrent requests; others wait on our side, where no timeout runs.
        loads_alone: True if two engines on one GPU must load one after the other, unless the size
            of each one's cache is given.
        halves: True if it holds weights of 32 bits as 16 on a GPU, unless told otherwise.
        classifies: True if it serves sequence classifiers at ``/classify``.
        sleeping: how it leaves a GPU for a while; None if it cannot.
        capabilities: what it can do. If anything is missing, the started server is probed too, and
            only what both allow is used.
    """

    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    packages: ClassVar[tuple[str, ...]]
    remedy: ClassVar[str]
    program: ClassVar[tuple[str, ...]]
    health: ClassVar[str] = "/health"
    key_variable: ClassVar[str] = ""
    noise: ClassVar[str] = r'"(GET|POST) /'
    vital: ClassVar[str] = ""
    # As for a candidate's and a judge's server.
    at_once: ClassVar[int] = 2 * CONNECTIONS
    loads_alone: ClassVar[bool] = True
    halves: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    sleeping: ClassVar[SleepPaths | None] = None
    capabilities: ClassVar[Capabilities] = ALL

    @abstractmethod
    def arguments(self, spec: EngineSpec, port: int, place: Assignment) -> list[str]:
        """The server's arguments; the user's come last, so they win."""

    def is_installed(self) -> bool:
        """True if all its modules can be found; imports none."""
        return all(importlib.util.find_spec(name) for name in self.modules)

    def runs_on_cpu(self) -> bool:
        """True if it runs on the CPU on this machine."""
        return False

    def check(self, args: Sequence[str]) -> None:
        """Raise ModelError for an argument that the engine lacks; called before anything starts."""
        return

    def require_silent(self, args: Sequence[str]) -> None:
        """Raise ModelError for a setting that makes it log prompts or answers (``--redact``)."""
        return

    def variables(self, spec: EngineSpec, place: Assignment) -> dict[str, str]:
        """Environment variables that it needs; the user's own values win."""
        return {}

    def parallel(self, args: Sequence[str]) -> Parallel:
        """How the user's arguments spread it over devices; UserError if they cannot be read."""
        return Parallel()

    def can_sleep(self, spec: EngineSpec) -> bool:
        """True if it can leave its GPU on this machine.

        What another program (``engine.command``) can do is unknown.
        """
        return self.sleeping is not None and not (spec.program or self.runs_on_cpu())

    def doing(self, log: str) -> str:
        """What its log says that it does while it starts, in words; empty if it says nothing."""
        return ""

    def cache_told(self, log: str) -> str:
        """What its log says of the cache that it got, in words; empty if it says nothing."""
        return ""

    def sequences(self, args: Sequence[str]) -> int:
        """Number of answers that one copy of the model generates at once."""
        return 256

    def weights_at(self, args: Sequence[str]) -> tuple[str | None, str | None]:
        """The revision of a Hugging Face model and the cache folder, if arguments give them."""
        return None, None

    def translate(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Translate a request for vLLM into one for this server."""
        return body

    def command(
        self, spec: EngineSpec, port: int, place: Assignment = WHOLE_MACHINE
    ) -> list[str]:
        return [*(spec.program or self.program), *self.arguments(spec, port, place)]

    def environment(
        self, api_key: str, spec: EngineSpec, place: Assignment = WHOLE_MACHINE
    ) -> dict[str, str]:
        """The server's environment; the user's variables win over all but the key and devices.

        It contains only those of the user's variables that an engine needs, see ``inherited``. The
        devices of an assignment are among those that the user left visible.
        """
        defaults: dict[str, str] = {}
        if place.devices:
            # nvidia-smi numbers GPUs by their bus, and CUDA only does so if it is told to.
            defaults["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if place.shared:
            # With cores of its own, an engine whose threads do not spin would be 4 to 10% slower.
            defaults["OMP_WAIT_POLICY"] = "PASSIVE"
        environment = defaults | self.variables(spec, place) | inherited()
        if place.devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(place.devices)
        if self.key_variable:
            # Not among the arguments, where every user of the machine could read it.
            environment[self.key_variable] = api_key
        return environment
