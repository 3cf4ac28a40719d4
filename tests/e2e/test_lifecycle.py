"""Engines that a session starts by itself: one, two, none that works, none left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from refusal_checks.models.demo import MODEL_DIR
from tests.e2e.conftest import ROOT, gate_command

pytestmark = pytest.mark.engine

SMOKE = ("--thresholds", str(ROOT / "thresholds" / "smoke.toml"))


def vllm_processes() -> set[int]:
    """Ids of the live processes of vLLM, engine cores and guards included."""
    found = set()
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        words = " ".join([process.info["name"] or "", *(process.info["cmdline"] or [])])
        ours = "vllm.entrypoints" in words or "VLLM::" in words
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.add(process.pid)
    return found


@pytest.mark.parametrize(
    ("number", "until"),
    [(signal.SIGKILL, b"vLLM is ready"), (signal.SIGINT, b"starting vLLM")],
    ids=["killed while it generates", "interrupted while it loads"],
)
def test_no_engine_outlives_the_session(tmp_path: Path, number: int, until: bytes) -> None:
    before = vllm_processes()
    command = gate_command(
        *("--candidate", "demo:aligned", "--judge", "demo:judge", *SMOKE),
        *("--store", tmp_path / "store.sqlite"),
    )
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as session:
        assert session.stdout is not None
        for line in session.stdout:
            if until in line:
                break
        time.sleep(2)
        assert vllm_processes() - before
        session.send_signal(number)
        session.stdout.read()
    deadline = time.monotonic() + 20
    while vllm_processes() - before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert vllm_processes() - before == set()


@pytest.mark.parametrize("placement", ["auto", "turns"])
def test_two_models_run_on_two_engines(tmp_path: Path, placement: str) -> None:
    copy = shutil.copytree(MODEL_DIR, tmp_path / "candidate")
    command = gate_command(
        *("--candidate", copy, "--candidate-template-kwargs", json.dumps({"persona": "aligned"})),
        *("--judge", "demo:judge", *SMOKE, "-m", "sanity", "--samples", "2"),
        *("--store", tmp_path / "store.sqlite", "--placement", placement),
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    chosen = {"auto": "together"}.get(placement, placement)
    assert f"placement {chosen}: " in done.stdout
    assert done.stdout.count("vLLM is ready after") == 2
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "vLLM" not in again.stdout


def test_a_model_that_vllm_cannot_load_ends_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["NoSuchModel"], "model_type": "no"}')
    command = gate_command("--candidate", folder, "--judge", "keyword", *SMOKE)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 16
    assert done.stdout.count("vLLM ended before it was ready") == 1
    assert "exit status: 1" in done.stdout
    assert str(folder) in done.stdout
