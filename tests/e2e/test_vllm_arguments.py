"""Our whole command lines, read by vLLM's own parser; what needs a GPU or a cluster too."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from refusal_checks.engines import vllm
from refusal_checks.engines.placement import (
    Devices,
    EngineNeed,
    PlacementRequest,
    place,
)
from refusal_checks.engines.vllm import EngineSpec

PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
for line in sys.stdin:
    known = vars(parser.parse_args(json.loads(line)))
    print(json.dumps({name: str(value) for name, value in known.items()}))
"""

EIGHT = Devices("gpu", tuple("01234567"), 80.0)
ONE = Devices("gpu", ("0",), 80.0)

CASES: Mapping[str, tuple[Devices, str, Mapping[str, Any]]] = {
    "nothing said, one GPU": (ONE, "", {"gpu_memory_utilization": 0.45}),
    "the user's cache": (
        ONE,
        "--kv-cache-memory-bytes 2G",
        {"kv_cache_memory_bytes": 2 * 2**30},
    ),
    "the user's share": (
        ONE,
        "--gpu-memory-utilization 0.3",
        {"gpu_memory_utilization": 0.3},
    ),
    "eight GPUs": (EIGHT, "", {"data_parallel_size": 1, "tensor_parallel_size": 1}),
    "tensor parallel": (
        EIGHT,
        "--tensor-parallel-size 4",
        {"tensor_parallel_size": 4, "data_parallel_size": 1},
    ),
    "pipeline parallel": (
        EIGHT,
        "--pipeline-parallel-size 2 -tp=2",
        {"pipeline_parallel_size": 2, "tensor_parallel_size": 2},
    ),
    "data parallel": (EIGHT, "-dp 2", {"data_parallel_size": 2}),
    "Ray executor": (
        EIGHT,
        "--distributed-executor-backend ray --tensor-parallel-size 8 --pipeline-parallel-size 2",
        {"distributed_executor_backend": "ray", "tensor_parallel_size": 8},
    ),
    "Ray carries copies": (
        EIGHT,
        "--data-parallel-backend ray --data-parallel-size 16 --data-parallel-size-local 8",
        {"data_parallel_backend": "ray", "data_parallel_size_local": 8},
    ),
    "several machines without Ray": (
        EIGHT,
        "--nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --tensor-parallel-size 16",
        {"nnodes": 2, "node_rank": 0},
    ),
}


def line(devices: Devices, args: str, cpu: bool) -> list[str]:
    """The arguments of the first of two engines of 15 GiB, without the interpreter and module."""
    spec = EngineSpec("org/model", tuple(args.split()))
    needs = [
        EngineNeed(spec.model, vllm.read_parallelism(spec.args), 15.0),
        EngineNeed("org/judge", weights=15.0, answers=False),
    ]
    own = place(devices, needs, PlacementRequest()).places[0]
    own = replace(own, is_eager=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm, "runs_on_cpu", lambda: cpu)
        return vllm.command(spec, 8000, own)[3:]


def test_vllm_reads_every_command_line_as_it_is_meant() -> None:
    lines = [
        line(devices, args, cpu)
        for devices, args, _ in CASES.values()
        for cpu in (False, True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", PARSE],
        input="".join(json.dumps(each) + "\n" for each in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [
        json.loads(each) for each in done.stdout.splitlines() if each.startswith("{")
    ]
    assert len(found) == len(lines)
    for (devices, args, expected), on_gpu, on_cpu in zip(
        CASES.values(), found[::2], found[1::2], strict=True
    ):
        for known in (on_gpu, on_cpu):
            assert known["enforce_eager"] == "True"
            assert (known["model"], known["port"]) == ("org/model", "8000")
            if known is on_cpu and devices is ONE and not args:
                continue  # the share of a GPU's memory means nothing there
            assert {name: known[name] for name in expected} == {
                name: str(value) for name, value in expected.items()
            }
