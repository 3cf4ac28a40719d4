"""A run that is killed, and the next one, on real vLLM."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from refusal_checks.engine import Engine
from refusal_checks.store import Contents, Store
from tests.e2e.conftest import ROOT, environment, persona_command, run_command

pytestmark = pytest.mark.engine

IN_FLIGHT = 4
ANSWERS = 80
"""One to each prompt of one bundled benchmark."""


def generated(engine: Engine) -> int:
    """How many generations the engine has finished, verdicts included."""
    with urllib.request.urlopen(engine.url.replace("/v1", "/metrics")) as reply:
        text = reply.read().decode()
    counts = re.findall(r"^vllm:request_success_total{.*} ([0-9.e+]+)$", text, re.MULTILINE)
    return sum(int(float(count)) for count in counts)


def contents(path: Path) -> Contents:
    if not path.exists():
        return Contents(0, 0, 0)
    with Store(path) as store:
        return store.contents()


def test_a_killed_run_is_gone_on_with(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    flags = ("--samples", "1", "--in-flight", str(IN_FLIGHT), "-k", "smoke_unsafe")
    command = persona_command(engine, path, "aligned", *flags)
    before = generated(engine)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(engine), stdout=subprocess.DEVNULL
    ) as session:
        while session.poll() is None and contents(path).judgements < 20:
            time.sleep(0.1)
        session.kill()
    stored = contents(path)
    assert 20 <= stored.judgements <= stored.completions < ANSWERS
    second = run_command(engine, command)
    assert second.status == 0, second.output
    assert f"{ANSWERS - stored.completions} answers to generate" in second.output
    wanted = ANSWERS + contents(path).judgements
    assert wanted <= generated(engine) - before <= wanted + IN_FLIGHT
    third = run_command(engine, command)
    assert " 0 answers to generate, 0 verdicts to ask for" in third.output
