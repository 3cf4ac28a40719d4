"""One inference engine: everything that the package knows of vLLM, or of another server.

An engine is one file in ``kinds/`` with an instance of a subclass of ``Engine``, called ``ENGINE``;
the file's name is what ``--engine`` takes. Where a method has a default, an engine may go without.
"""

from __future__ import annotations

import importlib.util
import os
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from refusal_checks.core.settings import CONNECTIONS
from refusal_checks.engines.placement import Assignment, Parallel, Placement
from refusal_checks.models.client.capabilities import ALL, Capabilities
from refusal_checks.models.spec import Attached, Model, Served

if TYPE_CHECKING:
    from refusal_checks.models.client.client import Client  # HTTP, which collection need not import

WHOLE_MACHINE = Assignment()
"""An engine that has the machine for itself."""


@dataclass(frozen=True)
class EngineSpec:
    """What makes two server processes the same.

    Attributes:
        model: a folder or a Hugging Face id.
        args: the user's arguments, verbatim.
        engine: the name of its kind.
        program: what ``--engine-command`` starts in place of the engine's own program.
    """

    model: str
    args: tuple[str, ...] = ()
    engine: str = "vllm"
    program: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Served) -> EngineSpec:
        """The engine that serves a model."""
        return cls(model.path, model.args, model.engine, model.program)


class Engine(Protocol):
    """A kind of engine: an OpenAI-compatible server that this package can start.

    To be inherited from, for the defaults.

    Attributes:
        title: its name for people.
        modules: Python modules that it needs; the first one has the ``__version__``.
        packages: distributions whose versions a run's manifest records.
        remedy: how to install it.
        program: starts the server; ``arguments`` come after it.
        health: path that answers 200 once the model is loaded.
        key_variable: environment variable with the API key; empty if it knows none.
        noise: pattern of log lines that never say why the server ended.
        vital: start of the names of child processes without which the server is useless, though it
            may live on; empty if there are none.
        at_once: most requests at one time; others wait here, where no time-out counts.
        loads_alone: True if two engines on one GPU must load one after the other.
        capabilities: what it can do. If anything is missing the started server is probed as well,
            and is used for what both say.
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
    at_once: ClassVar[int] = 2 * CONNECTIONS  # as for a candidate's and a judge's server
    loads_alone: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = ALL

    @abstractmethod
    def arguments(self, spec: EngineSpec, port: int, place: Assignment) -> list[str]:
        """The server's arguments; those of the user come last, so that they win."""

    def is_installed(self) -> bool:
        """True if all its modules can be found; none is imported."""
        return all(importlib.util.find_spec(name) for name in self.modules)

    def runs_on_cpu(self) -> bool:
        """True if it computes on the CPU here."""
        return False

    def check(self, args: Sequence[str]) -> None:
        """Refuse arguments that it does not have; called before anything is started.

        Raises:
            ModelError: names the argument.
        """
        return

    def require_silent(self, args: Sequence[str]) -> None:
        """Refuse settings that put prompts or answers into its log (``--redact``).

        Raises:
            ModelError: names the setting.
        """
        return

    def variables(self, spec: EngineSpec, place: Assignment) -> dict[str, str]:
        """Environment variables that it needs; those that the user has set win."""
        return {}

    def parallel(self, args: Sequence[str]) -> Parallel:
        """How the user's arguments spread it over devices.

        Raises:
            UserError: they cannot be read.
        """
        return Parallel()

    def sequences(self, args: Sequence[str]) -> int:
        """Answers that one copy of the model generates at one time."""
        return 256

    def weights_at(self, args: Sequence[str]) -> tuple[str | None, str | None]:
        """The revision of a Hugging Face model and the folder of the cache, if arguments say so."""
        return None, None

    def translate(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request for vLLM as this server takes it."""
        return body

    def batch_command(self, spec: EngineSpec, requests: Path, results: Path) -> list[str]:
        """The command that answers a batch file; empty if it cannot."""
        return []

    def command(self, spec: EngineSpec, port: int, place: Assignment = WHOLE_MACHINE) -> list[str]:
        """The server's whole command line."""
        return [*(spec.program or self.program), *self.arguments(spec, port, place)]

    def environment(
        self, api_key: str, spec: EngineSpec, place: Assignment = WHOLE_MACHINE
    ) -> dict[str, str]:
        """The server's environment; the user's variables win over all but key and devices.

        Of these it has only those that an engine needs, see ``inherited``.
        The devices of a place are some of those that the user left visible.
        """
        # nvidia-smi numbers GPUs by their bus, and CUDA only does so if it is told to.
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if place.devices else {}
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(place.devices)} if place.devices else {}
        # Not among the arguments, where every user of the machine could read it.
        key = {self.key_variable: api_key} if self.key_variable else {}
        return {**order, **self.variables(spec, place), **inherited(), **devices, **key}


VARIABLE = "REFUSAL_CHECKS_ENGINE_VARIABLES"
"""Names further variables for engines, divided by commas."""

_NAMES = (
    "HOME HOSTNAME LANG LANGUAGE LOGNAME PATH PWD SHELL TEMP TERM TMP TMPDIR TZ USER VIRTUAL_ENV "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CC CXX "
    "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG CONTAINER_HOST"
)
NAMES = frozenset(_NAMES.split())
"""Of the system, of certificates and proxies (in lower case too), and of containers."""

_PREFIXES = (
    "LC_ LD_ DYLD_ XDG_ SSL_ PYTHON CONDA_ MALLOC_ SLURM_ "
    "HF_ HUGGING TRANSFORMERS_ TOKENIZERS_ SAFETENSORS_ VLLM_ SGLANG_ LMCACHE_ "
    "CUDA CUBLAS CUDNN NVIDIA_ NCCL_ NVSHMEM_ GPU_ HIP_ HSA_ ROC AMD_ MIOPEN_ RCCL_ ONEAPI_ ZE_ "
    "SYCL_ CCL_ TPU_ XLA_ PJRT_ NEURON_ HABANA_ "
    "OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ DNNL_ ONEDNN_ NUMEXPR_ TORCH PYTORCH_ TRITON_ FLASHINFER_ "
    "XFORMERS_ TVM_ RAY_ GLOO_ UCX_ MASTER_"
)
PREFIXES = tuple(_PREFIXES.split())
"""How the variables of engines, devices and libraries of numbers begin."""

SECRET = frozenset({"KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "AUTH"})
"""A variable with one of these among its words is kept back."""

HUB = frozenset({"HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"})
"""The secrets that an engine needs: it downloads gated weights."""


def inherited(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a server started here gets of this process's own."""
    wanted = {name.strip() for name in environment.get(VARIABLE, "").split(",")}
    return {
        name: value for name, value in environment.items() if name in wanted or _is_needed(name)
    }


def _is_needed(name: str) -> bool:
    if name in HUB:
        return True
    upper = name.upper()
    return (upper in NAMES or upper.startswith(PREFIXES)) and not SECRET & set(upper.split("_"))


Say = Callable[[str], None]
"""Shows one line to the user."""

Needed = Callable[[], Iterable[Model]]
"""Finds the models that a run needs."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Asks the servers; can be done again."""


class Servers(Protocol):
    """The servers of candidate and judges."""

    @property
    def clients(self) -> Sequence[Client]:
        """All connections, to be opened in the event loop that uses them."""

    @property
    def are_live(self) -> bool:
        """True if attached servers can be asked something before the run."""

    @property
    def placement(self) -> Placement:
        """The result of the last ``place``."""

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """A client for a model.

        Args:
            option: the option that named the model, ``--candidate`` or ``--judge``.
            number: which of the models that this option named, from 1.

        Raises:
            ModelError: its server cannot be used.
        """

    def account(self) -> dict[str, Any]:
        """Token counts so far, and the capabilities of servers that may lack some."""

    def place(self, models: Iterable[Model], before: Servers | None = None) -> Placement:
        """Choose where the engines of these models run; starts nothing.

        Args:
            before: those of a run that has ended; what is needed of them goes on if the rest fits
                into their places, and all others are stopped.

        Raises:
            UserError: they cannot be placed as the options say.
        """

    def load_early(self, needed: Needed, before: Servers, say: Say) -> None:
        """Begin to load engines beside those of a run that still goes on, if there is room.

        They take the places that ``before`` has until then; ``place`` and ``start`` follow once
        that run has ended.

        Args:
            needed: the models that the run needs; called only if their engines may have room.

        Raises:
            EngineStartError: a process cannot be created, or all engines are closed.
        """

    def start(self, say: Say, turn: int = 0) -> None:
        """Stop all engines and start those whose turn it is; returns when all are ready.

        Raises:
            EngineStartError: one did not start; others may run until ``stop``.
        """

    async def ready(self, models: Iterable[Model] | None = None) -> None:
        """Return once the engines of these models, or all that were to start, can be asked.

        An engine that shares its devices' memory with one that loads cannot.
        """

    def require_running(self) -> None:
        """Raise EngineDiedError if a started engine has ended."""

    async def guard(self, work: Work, say: Say) -> None:
        """Do the work; if an engine ends, start it again, once, and repeat the work.

        Args:
            work: must itself remember what is not to be repeated.
            say: takes one line for each engine that was started again.

        Raises:
            EngineDiedError: an engine has ended for the second time.
            EngineStartError: one that has ended did not start again.
        """

    def stop(self) -> None:
        """Stop every running engine."""

    def close(self) -> None:
        """Stop every running engine and start none any more, whatever other threads do."""
