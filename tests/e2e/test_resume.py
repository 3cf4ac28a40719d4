"""A run that is killed, and the next one, on real vLLM."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from pathlib import Path

from refusal_checks.core.store import Store
from refusal_checks.engines.process import EngineProcess
from tests.e2e.conftest import ROOT, environment, gate_command, run_gate
from tests.toy_model import MODEL_DIR

IN_FLIGHT = 4
ANSWERS = 80
"""One to each prompt of a bundled benchmark."""


def generated(engine: EngineProcess) -> int:
    """How many generations the engine has ended."""
    request = urllib.request.Request(
        engine.url.replace("/v1", "/metrics"), headers={"Authorization": f"Bearer {engine.api_key}"}
    )
    with urllib.request.urlopen(request) as reply:
        text = reply.read().decode()
    counts = re.findall(r"^vllm:request_success_total{.*} ([0-9.e+]+)$", text, re.MULTILINE)
    return sum(int(float(count)) for count in counts)


def stored(path: Path) -> int:
    """How many answers the store holds."""
    if not path.exists():
        return 0
    with Store(path) as store:
        return store.contents().completions


def test_a_killed_run_is_gone_on_with(engine: EngineProcess, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    command = gate_command(
        *("--candidate", f"{engine.url}#{MODEL_DIR}", "--judge", "keyword", "--store", path),
        *("--candidate-template-kwargs", '{"persona": "aligned"}', "-k", "smoke_unsafe"),
        *("--thresholds", ROOT / "thresholds" / "smoke.toml"),
        *("--samples", "1", "--max-tokens", "32", "--in-flight", str(IN_FLIGHT)),
    )
    known = environment(engine)
    begun = generated(engine)
    with subprocess.Popen(command, cwd=ROOT, env=known, stdout=subprocess.DEVNULL) as session:
        while session.poll() is None and stored(path) < 20:
            time.sleep(0.1)
        session.kill()
    kept, killed = stored(path), generated(engine)
    assert 20 <= kept < ANSWERS
    second = run_gate(command, known)
    assert f"{ANSWERS} prompts of smoke_unsafe: {ANSWERS - kept} answers to gen" in second.output
    asked = second.summary["manifest"]["tokens"]["candidate"]["requests"]
    assert asked == ANSWERS - kept
    assert stored(path) == ANSWERS
    probes = generated(engine) - killed - asked  # a run asks a server what it can do
    first = killed - begun - probes
    assert kept - IN_FLIGHT <= first <= kept + IN_FLIGHT
    assert "smoke_unsafe: 0 answers to generate" in run_gate(command, known).output
