"""Engines that a session starts by itself: one, two, none that works, none left behind."""

import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import psutil
import pytest

from refusal_checks.engines.placement import FEW
from refusal_checks_demo.conversion import Conversion
from tests.e2e.conftest import ROOT, SMOKE, gate_command, run_gate
from tests.support.processes import lives, wait_until, words
from tests.toy_model import MODEL_DIR


def two_models(folder: Path) -> list[str]:
    """Gates of two demo models that need an engine each."""
    copy = shutil.copytree(MODEL_DIR, folder / "candidate")
    return gate_command(
        *("--candidate", copy, "--set", "candidate.template_variables.persona=aligned"),
        *("--judge", "demo:writer", *SMOKE, "-m", "sanity", "--samples", "2"),
        *("--store", folder / "store.sqlite"),
    )


def is_core(process: psutil.Process) -> bool:
    """Whether this is the process of vLLM that has the model; the guard names it only."""
    return "".join(words(process)[:1]).startswith("VLLM::EngineCore")


@pytest.mark.parametrize(
    ("number", "until", "engines"),
    [
        (signal.SIGKILL, b"starting vLLM", 1),
        pytest.param(signal.SIGKILL, b"vLLM is ready", 2, marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, b"starting vLLM", 1, marks=pytest.mark.nightly),
    ],
    ids=[
        "killed while it loads",
        "killed while it generates",
        "interrupted while it loads",
    ],
)
def test_no_engine_outlives_the_session(
    tmp_path: Path, number: int, until: bytes, engines: int
) -> None:
    command = two_models(tmp_path)
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as session:
        assert session.stdout is not None
        said = b""
        while said.count(until) < engines:
            said += session.stdout.readline()
            assert session.poll() is None, said.decode()
        children = partial(psutil.Process(session.pid).children, recursive=True)
        assert wait_until(lambda: any(map(is_core, children())), 300)
        started = children()
        session.send_signal(number)
        said += session.stdout.read()
    assert b"placement together: " in said
    assert wait_until(lambda: not any(map(lives, started)))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) > FEW, reason="many cores are divided")
@pytest.mark.parametrize("starts", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_models_that_share_cores_start_each_time(tmp_path: Path, starts: int) -> None:
    """Before engines that share cores stopped to spin, one start in five ended with status -9."""
    base = Conversion()
    base.make(print)
    judge = shutil.copytree(base.folder, tmp_path / "judge")
    (tmp_path / "few.toml").write_text(
        "[smoke_unsafe]\nrejection_rate = { min = 0.1 }\n"
    )
    short = (
        "--limit",
        "4",
        "--samples",
        "2",
        "--set",
        "sampling.max_tokens=24",
        "--set",
        "judge.max_tokens=24",
        "--fresh",
    )
    models = ("--candidate", base.folder, "--judge", judge)
    command = gate_command(*models, "--thresholds", tmp_path / "few.toml", *short)
    for _ in range(starts):
        run = run_gate(command)
        assert run.output.count("vLLM is ready after") == 2, run.output
        assert run.output.count("starting vLLM") == 2, "none is started again"
        execution = run.summary["execution"]
        assert [place["shared"] for place in execution["placement"]["places"]] == [
            True,
            True,
        ]
        assert all(
            execution["tokens"][role]["output"] for role in ("candidate", "judge")
        )


def test_a_model_that_vllm_cannot_load_ends_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"architectures": ["NoSuchModel"], "model_type": "no"}'
    )
    command = gate_command("--candidate", folder, "--judge", "keyword", *SMOKE)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = run_gate(command, environment)
    assert run.status == 16
    assert run.output.count("vLLM ended before it was ready") == 1
    assert "exit status: 1" in run.output
    assert str(folder) in run.output
