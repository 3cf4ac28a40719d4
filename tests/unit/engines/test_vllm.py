"""What an engine is started with: its command line and its environment."""

import asyncio
import importlib.metadata
import json
from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import vllm
from refusal_checks.engines.environment import inherited_variables
from refusal_checks.engines.placement import Assignment, Parallelism
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.supervisor import KeyCheck, Message, Receive, Send
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.models.identity import model_identity
from refusal_checks.models.model_names import Served


@pytest.mark.parametrize(
    ("installed", "cpu"),
    [
        ({"vllm": "0.32.0"}, False),
        ({"vllm": "0.32.0+cpu"}, True),
        ({"vllm-cpu": "0.32.0"}, True),
        ({"vllm": "0.32.0", "vllm-cpu": "0.32.0"}, False),
        ({}, False),
    ],
)
def test_a_build_for_the_cpu_is_known_by_its_version(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], cpu: bool
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert vllm.runs_on_cpu() is cpu


def test_what_the_user_passes_wins_over_the_engine_s_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    spec = EngineSpec("m", ("--gpu-memory-utilization", "0.3"))
    found = vllm.command(spec, 1, Assignment(memory=0.5))
    assert found[-4:] == ["--gpu-memory-utilization", "0.500", *spec.args]
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    env = vllm.environment("", spec, Assignment(cores=(0, 1), devices=("3",)))
    assert env["OMP_NUM_THREADS"] == "7"
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == (
        "3",
        "PCI_BUS_ID",
    )
    assert vllm.environment("", spec)["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("args", "alone"),
    [
        ((), True),
        (("--distributed-executor-backend", "mp"), False),
        (("--data-parallel-size", "2"), False),
        (("-tp=2",), False),
    ],
)
def test_on_a_cpu_one_rank_is_one_process(
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], alone: bool
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_OMP_THREADS_BIND"):
        monkeypatch.delenv(name, raising=False)
    spec = EngineSpec("m", args)
    assert ("uni" in vllm.command(spec, 1)) is alone
    assert ("VLLM_ENABLE_V1_MULTIPROCESSING" in vllm.environment("", spec)) is alone


@pytest.mark.parametrize(
    ("about", "dtype"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", "bfloat16"),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f amx_bf16 amx_tile\n", "bfloat16"),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", "float32"),
        ("processor\t: 0\nflags\t\t: fpu avx avx2 fma\n", "float32"),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", "bfloat16"),  # Arm
        ("processor\t: 0\nFeatures\t: fp asimd\n", "float32"),
        (None, "float32"),
    ],
)
def test_bfloat16_is_left_to_processors_that_compute_it(
    tmp_path: Path, about: str | None, dtype: str
) -> None:
    if about:
        (tmp_path / "cpuinfo").write_text(about)
    assert vllm.cpu_dtype(tmp_path / "cpuinfo") == dtype


def test_answers_of_different_data_types_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    model = Served("m", "m", ("--seed", "1"))
    identities = set()
    for dtype in ("bfloat16", "float32"):
        monkeypatch.setattr(vllm, "cpu_dtype", lambda found=dtype: found)
        named = vllm.add_dtype(model)
        assert named.args == ("--seed", "1", "--dtype", dtype)
        identities.add(model_identity(named))
    assert len(identities) == 2
    own = Served("m", "m", ("--dtype=half",))
    assert vllm.add_dtype(own) == own, "the user's wins"
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    assert vllm.add_dtype(model) == model


@pytest.mark.parametrize(
    ("stored", "args", "times"),
    [
        ({"dtype": "bfloat16"}, ("--dtype", "float32"), 2.0),
        ({"dtype": "bfloat16"}, ("--dtype", "bfloat16"), 1.0),
        ({"torch_dtype": "float16"}, ("--dtype=float",), 2.0),
        ({"torch_dtype": "float32"}, ("--dtype", "float32"), 1.0),
        ({"torch_dtype": "float32"}, ("--dtype", "half"), 0.5),
        ({"torch_dtype": "float32"}, (), 0.5),  # vLLM's auto halves it
        ({"dtype": "bfloat16"}, (), 1.0),
        ({}, ("--dtype", "float32"), 1.0),
    ],
)
def test_weights_grow_with_the_bytes_of_their_data_type(
    tmp_path: Path, stored: dict[str, str], args: tuple[str, ...], times: float
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert vllm.memory_growth(Served("m", str(tmp_path), args)) == times


def test_the_api_key_is_in_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "7")
    server = EngineProcess(EngineSpec("m"), tmp_path / "log")
    assert server.api_key not in " ".join(server.command)
    found = vllm.environment(server.api_key, server.spec)
    assert found["VLLM_API_KEY"] == server.api_key
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "7"


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        # Its threads may spin on cores of its own.
        (
            Assignment(cores=tuple(range(8)), cache=4, threads=7),
            {"OMP_NUM_THREADS": "7", "VLLM_CPU_KVCACHE_SPACE": "4"},
        ),
        (
            Assignment(cores=(0, 1), threads=2, shared=True),
            {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
        ),
    ],
)
def test_cores_and_threads_become_variables(
    monkeypatch: pytest.MonkeyPatch,
    place: Assignment,
    variables: dict[str, str],
) -> None:
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "VLLM_CPU_KVCACHE_SPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    found = vllm.environment("", EngineSpec("m"), place)
    for name, value in variables.items():
        assert found[name] == value
    assert ("OMP_WAIT_POLICY" in found) is place.shared


def test_kernels_that_no_gate_uses_are_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "VLLM_USE_FLASHINFER_SAMPLER"
    monkeypatch.delenv(name, raising=False)
    assert vllm.environment("", EngineSpec("m"))[name] == "0"
    monkeypatch.setenv(name, "1")
    assert vllm.environment("", EngineSpec("m"))[name] == "1", "the user's wins"


@pytest.mark.parametrize("cpu", [True, False])
def test_a_cache_and_a_start_without_compiling_become_arguments_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, cpu: bool
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: cpu)
    found = vllm.command(EngineSpec("m"), 1, Assignment(cache=1.5, is_eager=True))
    sizes = ["--kv-cache-memory-bytes", "1610612736", "--enforce-eager"]
    assert (found[-3:] == sizes) is not cpu
    assert found.count("--enforce-eager") == 1


def test_another_program_takes_the_same_arguments() -> None:
    spec = EngineSpec("m", ("--seed", "1"), program=("fork/bin/python", "-m", "server"))
    own = vllm.command(EngineSpec("m", spec.args), 1)
    lock = own.index("--middleware")  # of this package, which the program may not have
    assert own[lock + 1] == "refusal_checks.engines.supervisor.KeyCheck"
    assert vllm.command(spec, 1) == [*spec.program, *own[3:lock], *own[lock + 2 :]]


@pytest.mark.parametrize(
    "argument",
    [
        "--enable-log-requests",
        "--enable_log_outputs=true",
        "--config",
        "--log_config_file=quiet.yaml",
        "--uvicorn-log-level=debug",
    ],
)
def test_arguments_that_log_texts_are_refused(argument: str) -> None:
    with pytest.raises(ModelError, match="--redact"):
        vllm.check_logging(["--enable-lora", argument])


@pytest.mark.parametrize(
    ("name", "quiet", "loud"),
    [
        ("VLLM_LOGGING_CONFIG_PATH", "", "logging.json"),
        ("VLLM_LOGGING_LEVEL", "INFO", "debug"),
        ("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "", "True"),
    ],
)
def test_variables_that_log_texts_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, quiet: str, loud: str
) -> None:
    monkeypatch.setenv(name, quiet)
    vllm.check_logging([])
    monkeypatch.setenv(name, loud)
    with pytest.raises(ModelError, match=f"unset .{name}"):
        vllm.check_logging([])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("", Parallelism()),
        ("--tensor_parallel_size=2 -pp 3", Parallelism(shards=6)),
        ("-dp 4 -tp 2", Parallelism(shards=2, copies=4)),
        ("-tp many", Parallelism()),
        ("-tp", Parallelism()),
        ("--enforce-eager -tp 2", Parallelism(shards=2)),
        ("--gpu-memory-utilization 0.5", Parallelism(memory=0.5)),
        ("--gpu-memory-utilization half", Parallelism()),
    ],
)
def test_the_user_s_arguments_say_how_an_engine_is_spread(
    args: str, expected: Parallelism
) -> None:
    assert vllm.read_parallelism(args.split()) == expected


@pytest.mark.parametrize(
    "argument",
    [
        "--port",
        "--api_key=secret",
        "--served-model-name",
        "--model=other",
        "--hf-token=secret",
    ],
)
def test_arguments_for_another_address_or_with_a_secret_are_refused(
    argument: str,
) -> None:
    flag = argument.partition("=")[0].replace("_", "-")
    with pytest.raises(ModelError, match=f"leave out {flag}") as refusal:
        vllm.check_arguments(["--enable-lora", argument])
    assert "secret" not in str(refusal.value)
    vllm.check_arguments(["--model-impl", "transformers"])


def test_vllm_s_server_in_rust_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    assert vllm.environment("", EngineSpec("m"))["VLLM_USE_RUST_FRONTEND"] == "0"


@pytest.mark.parametrize("has_command", [True, False])
def test_the_command_starts_it_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, has_command: bool
) -> None:
    def version(name: str) -> str:
        if name == "vllm" and not has_command:
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.32.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    program = vllm._COMMAND if has_command else vllm._MODULE
    model = ["serve", "m"] if has_command else [program[-1], "--model", "m"]
    found = vllm.command(EngineSpec("m"), 1)
    start = len(program) - 1
    assert found[start : start + len(model)] == model
    fork = EngineSpec("m", program=("fork/python", "-m", "server"))
    assert vllm.command(fork, 1)[3:5] == ["--model", "m"], "it may be the module"


async def receive() -> Message:
    return {}


def status(path: str, *, key: str = "", kind: str = "http") -> object:
    """What a request gets: the application's 200, or what stands in its way."""
    sent: list[Message] = []

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await send({"status": 200})

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    scope = {"type": kind, "path": path, "headers": headers}
    asyncio.run(KeyCheck(application)(scope, receive, send))
    return sent[0].get("status", sent[0].get("code"))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")


@pytest.mark.parametrize("path", ["/invocations", "/v1/models", "/"])
def test_a_path_wants_the_key(path: str) -> None:
    assert status(path) == 401
    assert status(path, key="wrong") == 401
    assert status(path, key="right") == 200
    assert status(path, kind="websocket") == 1008


NEEDED = """PATH HOME LC_ALL LD_LIBRARY_PATH PYTHONPATH TMPDIR https_proxy SSL_CERT_FILE
CUDA_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION NCCL_SOCKET_IFNAME OMP_NUM_THREADS
VLLM_CPU_KVCACHE_SPACE HF_HOME HF_TOKEN TOKENIZERS_PARALLELISM"""
SECRETS = """OPENAI_API_KEY ANTHROPIC_API_KEY NVIDIA_API_KEY HF_API_KEY PYPI_PASSWORD
REFUSAL_CHECKS_JUDGE_API_KEY REFUSAL_CHECKS_CANDIDATE_2_API_KEY AWS_SECRET_ACCESS_KEY
GITHUB_TOKEN RAY_AUTH_TOKEN CONDA_TOKEN DATABASE_URL SSH_AUTH_SOCK"""


def test_an_engine_inherits_what_it_needs_and_no_secret() -> None:
    needed = NEEDED.split()
    given = dict.fromkeys([*needed, *SECRETS.split()], "x")
    assert list(inherited_variables(given)) == needed
