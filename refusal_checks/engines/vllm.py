"""vLLM's own OpenAI-compatible server."""

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.settings import CONNECTIONS
from refusal_checks.engines.engine import (
    WHOLE_MACHINE,
    Assignment,
    EngineSpec,
    Parallel,
)
from refusal_checks.engines.environment import inherited

SEQUENCES = {True: 256, False: 1024}
"""Answers that vLLM generates at one time unless told otherwise: on a CPU (True), and on the
largest GPUs; what a smaller one cannot take waits in its queue."""

_FLAGS = {
    "tensor": ("--tensor-parallel-size", "-tp"),
    "pipeline": ("--pipeline-parallel-size", "-pp"),
    "context": ("--prefill-context-parallel-size", "-pcp"),
    "data": ("--data-parallel-size", "-dp"),
    "local": ("--data-parallel-size-local", "-dpl"),
    "nodes": ("--nnodes", "-n"),
    "executor": ("--distributed-executor-backend",),
    "data_backend": ("--data-parallel-backend", "-dpb"),
    "data_address": ("--data-parallel-address", "-dpa"),
    "memory": ("--gpu-memory-utilization",),
    "kv_cache": ("--kv-cache-memory-bytes", "--kv-cache-memory"),
    "sequences": ("--max-num-seqs",),
    "revision": ("--revision",),
    "cache": ("--download-dir",),
    "dtype": ("--dtype",),
}
"""vLLM's names of the arguments that matter here."""

_UNUSUAL = re.compile(
    r"--(enable-lora|lora-modules|spec-|speculative-|quantization|hf-overrides|hf-config-path"
    r"|max-num-batched-tokens|performance-mode|limit-mm-per-prompt|language-model-only|enable-eplb"
    r"|offload-|cpu-offload-gb|num-gpu-blocks-override|no-enable-chunked-prefill|config)|-q|-sc"
)
"""Arguments with which weights or activations take another size than the files tell."""

_OWN = frozenset(
    {"--model", "--served-model-name", "--host", "--port", "--uds", "--api-key"}
    | {"--root-path", "--ssl-keyfile", "--ssl-certfile", "--grpc", "--headless"}
)
"""Arguments with which another model would answer, or the server would be elsewhere."""

_DOING = (
    (r"Loading model from scratch|Starting to load model", "it loads weights"),
    (r"Using cache directory: .* torch.compile", "it compiles the model"),
    (r"torch.compile took", "it measures memory"),
    (r"Capturing CUDA graphs", "it captures CUDA graphs"),
    (
        r"Graph capturing finished",
        "it prepares kernels, which FlashInfer may compile for minutes the first time",
    ),
)
"""What vLLM does from a line of its log on."""

_CACHE_LINES = (
    r"reserved ([\d.]+) GiB memory for KV Cache",
    r"Available KV cache memory: ([\d.]+) GiB",
)
"""Lines of its log with the size of the cache: as it was given, and as it was measured."""

_TOKENS_LINE = r"GPU KV cache size: ([\d,]+) tokens"

_BINDING = "VLLM_CPU_OMP_THREADS_BIND"
"""Variable that says which cores the threads of each rank are bound to."""


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


def _stops_gently(version: str) -> bool:
    """True if this vLLM has ``--shutdown-timeout``: from 0.25 on, and in builds from a checkout."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        return True
    release = int(numbers[1]), int(numbers[2])
    return release == (0, 0) or release >= (0, 25)


def _has_command() -> bool:
    """True if ``vllm serve`` works.

    It asks for the version of the distribution ``vllm``, so that it fails where a CPU build is
    installed under another name.
    """
    with suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version("vllm"))
    return False


_MODULE = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
_COMMAND = (sys.executable, "-m", "vllm.entrypoints.cli.main", "serve")
"""What ``vllm serve`` does, of the same Python as this process whatever the PATH says."""


def _remedy() -> str:
    """How to install vLLM: with make in a checkout, else with pip."""
    if (Path(__file__).parents[2] / "requirements" / "engine-cpu.txt").is_file():
        return "`make engine` in the checkout"
    return (
        'pip install "refusal-checks[vllm]" for a GPU (vLLM\'s wheels for a CPU are at '
        "https://docs.vllm.ai)"
    )


class Vllm:
    """The engine: an OpenAI-compatible server that this package can start.

    Attributes:
        packages: distributions whose versions the manifest records.
        program: command that starts the server; ``arguments`` follow it.
        health: path that returns status 200 once the model is loaded.
        key_variable: environment variable with the API key.
        noise: pattern of log lines that never explain why the server ended.
        vital: prefix of the names of child processes without which the server is useless, though it
            may live on.
        at_once: most concurrent requests; others wait on our side, where no timeout runs.
    """

    packages = ("vllm", "vllm-cpu", "torch")
    program = _COMMAND if _has_command() else _MODULE
    health = "/health"
    key_variable = "VLLM_API_KEY"
    noise = r'leaked|nanobind|skipped remainder|"(GET|POST) /'
    vital = "VLLM::EngineCore"
    # As for a candidate's and a judge's server.
    at_once = 2 * CONNECTIONS

    def is_installed(self) -> bool:
        """True if vLLM can be found; imports nothing."""
        return importlib.util.find_spec("vllm") is not None

    def require_program(self, program: Sequence[str]) -> None:
        """Raise ModelError, with the remedy, if vLLM or its replacement program is missing."""
        if program and shutil.which(program[0]) is None:
            raise ModelError(
                f"engine.command: no program {program[0]} here; name one on the PATH, or its whole "
                "path"
            )
        if not program and not self.is_installed():
            raise ModelError(
                f"vLLM is not installed here: install it: {_remedy()}, or name a running server "
                "(http://HOST:PORT/v1#MODEL)"
            )

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
        # Not among the arguments, where every user of the machine could read it.
        environment[self.key_variable] = api_key
        return environment

    def arguments(self, spec: EngineSpec, port: int, place: Assignment) -> list[str]:
        """The server's arguments; the user's come last, so they win."""
        address = ["--host", "127.0.0.1", "--port", str(port)]
        model = ["--model", spec.model]
        if not spec.program and self.program == _COMMAND:
            model = [spec.model]
            if self.parallel(spec.args).copies > 1:
                # As many HTTP servers as copies would be started, each with its own share of them.
                model += ["--api-server-count", "1"]
        arguments = [*model, *address, *self._settings(spec)]
        # Another program may not have this package.
        if not spec.program:
            arguments += ["--middleware", "refusal_checks.engines.guard.KeyCheck"]
        if place.memory is not None:
            arguments += ["--gpu-memory-utilization", f"{place.memory:.2f}"]
        if place.shards > 1:
            arguments += ["--tensor-parallel-size", str(place.shards)]
        if not runs_on_cpu():
            if place.cache is not None:
                size = round(place.cache * 2**30)
                arguments += ["--kv-cache-memory-bytes", str(size)]
            if place.is_eager:
                arguments += ["--enforce-eager"]
        return [*arguments, *spec.args]

    def check(self, args: Sequence[str]) -> None:
        """Raise ModelError for an argument that it must not get; called before anything starts."""
        for argument in _dashed(args):
            flag = argument.partition("=")[0]
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
        if os.environ.get("VLLM_USE_RUST_FRONTEND", "0") not in ("", "0"):
            raise ModelError(
                "unset $VLLM_USE_RUST_FRONTEND: vLLM's server in Rust lacks what a gate asks for"
            )

    def _settings(self, spec: EngineSpec) -> list[str]:
        # The sampling of a run is what its settings say, not what a model's folder suggests.
        settings = ["--generation-config", "vllm"]
        # All other flags exist since before 0.20; without this one an engine stops less gently.
        if _stops_gently(version()):
            settings += ["--shutdown-timeout", "3"]
        # A weak judge can otherwise spend its whole budget on white space between JSON tokens;
        # to forbid that needs a named backend.
        constrained = '{"backend": "xgrammar", "disable_any_whitespace": true}'
        settings += ["--structured-outputs-config", constrained]
        # Otherwise it does not report cached tokens.
        settings += ["--enable-prompt-tokens-details"]
        # Otherwise it does not start if the cache cannot hold the model's longest prompt.
        settings += ["--max-model-len", "auto"]
        if runs_on_cpu():
            # A seeded request whose prompt is split between two steps stops the CPU engine: its
            # generators have no offset to rewind ("CPU Generator does not use offset").
            settings += [
                "--enforce-eager",
                "--dtype",
                cpu_dtype(),
                "--no-enable-chunked-prefill",
            ]
            if self._in_one_process(spec):
                settings += ["--distributed-executor-backend", "uni"]
        return settings

    def variables(self, spec: EngineSpec, place: Assignment) -> dict[str, str]:
        """Environment variables that it needs; the user's own values win."""
        variables = {
            "VLLM_NO_USAGE_STATS": "1",
            # FlashInfer samples neither with seeds nor greedily, as a gate asks throughout, and its
            # first start compiles for minutes what would never be used.
            "VLLM_USE_FLASHINFER_SAMPLER": "0",
        }
        ranks, cores = self.parallel(spec.args).ranks, place.cores[: place.threads]
        if cores and ranks == 1:
            # vLLM binds threads itself for its worker processes alone; without them, and without
            # this, it would compute with one thread.
            variables["OMP_NUM_THREADS"] = str(len(cores))
        elif cores:
            # By default vLLM wants a NUMA node for each rank.
            bound = "|".join(
                ",".join(map(str, cores[rank::ranks])) for rank in range(ranks)
            )
            variables[_BINDING] = bound if len(cores) >= ranks else "nobind"
        if runs_on_cpu():
            variables["VLLM_CPU_KVCACHE_SPACE"] = f"{place.cache or 1:.0f}"
            if self._in_one_process(spec):
                # Else the platform turns the uni executor back into one more process to start.
                variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        return variables

    def parallel(self, args: Sequence[str]) -> Parallel:
        """How the user's arguments spread it over devices; UserError if they cannot be read.

        A value that vLLM will refuse counts as not given.
        """
        values = _read(args)
        counts = {
            name: _count(values[name])
            for name in ("tensor", "pipeline", "context", "data")
        }
        return Parallel(
            shards=counts["tensor"] * counts["pipeline"] * counts["context"],
            copies=_count(values["local"]) if values["local"] else counts["data"],
            is_given=any(values[name] is not None for name in (*counts, "local")),
            is_elsewhere=_count(values["nodes"]) > 1
            or "ray" in (values["executor"], values["data_backend"])
            or values["data_address"] is not None,
            memory=_share(values["memory"]),
            has_cache=values["kv_cache"] is not None,
            sequences=_count(values["sequences"]) if values["sequences"] else None,
            # Other types take 16 bits, as weights do without the argument.
            is_unusual=values["dtype"] in ("float", "float32")
            or any(map(_UNUSUAL.match, _dashed(args))),
        )

    def doing(self, log: str) -> str:
        """What its log says that it does while it starts, in words."""
        done = [words for line, words in _DOING if re.search(line, log)]
        return done[-1] if done else "it imports its modules"

    def cache_told(self, log: str) -> str:
        """What its log says of the cache that it got, in words; empty if it says nothing."""
        sizes = [size for line in _CACHE_LINES for size in re.findall(line, log)]
        tokens = re.findall(_TOKENS_LINE, log)
        told = []
        if sizes:
            told.append(f"{sizes[-1]} GiB")
        if tokens:
            told.append(f"{tokens[-1]} tokens")
        return f"cache of {', '.join(told)}" if told else ""

    def sequences(self, args: Sequence[str]) -> int:
        """Number of answers that one copy of the model generates at once."""
        given = _read(args)["sequences"]
        return _count(given) if given else SEQUENCES[runs_on_cpu()]

    def weights_at(self, args: Sequence[str]) -> tuple[str | None, str | None]:
        """The revision of a Hugging Face model and the cache folder, if arguments give them."""
        given = _read(args)
        return given["revision"], given["cache"]

    def require_silent(self, args: Sequence[str]) -> None:
        """Raise ModelError for a setting that makes it log prompts or answers (``--redact``)."""
        for argument in args:
            flag = argument.partition("=")[0].replace("_", "-")
            # The switches that put prompts and answers into its log are off by default.
            # These set its logging in a file, out of sight, or make uvicorn log requests.
            unseen = ("--config", "--log-config-file", "--uvicorn-log-level")
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

    def _in_one_process(self, spec: EngineSpec) -> bool:
        """True if model and scheduler can share a process, which starts fastest on a CPU.

        Several ranks cannot: they need vLLM's worker processes, which alone bind threads to cores.
        So does a user's own binding of threads.
        """
        is_uni = _read(spec.args)["executor"] in (None, "uni")
        return (
            is_uni
            and self.parallel(spec.args).ranks == 1
            and _BINDING not in os.environ
        )


ENGINE = Vllm()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"vLLM's arguments: {message}")


def _read(args: Sequence[str]) -> dict[str, str | None]:
    """Read the arguments of ``_FLAGS``; vLLM treats underscores in a flag's name as dashes."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name, flags in _FLAGS.items():
        parser.add_argument(*flags, dest=name)
    return vars(parser.parse_known_args(_dashed(args))[0])


def _dashed(args: Sequence[str]) -> list[str]:
    return [
        re.sub(r"^--[^=]*", lambda flag: flag[0].replace("_", "-"), arg) for arg in args
    ]


def _count(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and int(text) else 1


def _share(text: str | None) -> float | None:
    with suppress(ValueError):
        share = float(text or "")
        return share if 0 < share <= 1 else None
    return None
