"""Real vLLM with the toy models. One engine serves most tests; it is attached to by URL."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.vllm import EngineSpec, add_dtype
from refusal_checks.models.model_names import Served
from refusal_checks.wording.release import EXIT_CODES
from tests import toy_model
from tests.support.forked import Forked, for_pytest
from tests.toy_model import MODEL_DIR, PROMPTS

toy_model.use()

FOLDER = Path(__file__).parent

ROOT = FOLDER.parents[1]

SMOKE = ("--thresholds", Path(__file__).with_name("smoke.toml"))

UNVERIFIED = EXIT_CODES["unverified"]
"""Exit code of a run that passes, but rests on something that was not shown: nobody tested the toy
that judges, and most tests run a part of the prompts or gates."""

EVALUATED = (0, 1, UNVERIFIED)
"""Exit codes of a run that came to its end, whatever its gates say."""


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip these tests unless an argument names them; give them the time in which engines load."""
    reason = "starts real engines, which takes minutes: run pytest tests/e2e"
    named = any("e2e" in argument for argument in config.args)
    for item in items:
        if FOLDER not in item.path.parents:
            continue
        if not named:
            item.add_marker(pytest.mark.skip(reason=reason))
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


@dataclass(frozen=True)
class GateRun:
    """A finished run of the release gate."""

    status: int
    output: str

    @property
    def folder(self) -> Path:
        """The run's folder."""
        found = re.search(r"run folder (\S+)$", self.output, re.MULTILINE)
        assert found, self.output
        return Path(found[1])

    @property
    def summary(self) -> dict[str, Any]:
        """The run's summary.json."""
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return summary

    def value(self, gate: str) -> float:
        """A gate's figure."""
        return float(self.summary["verdicts"][gate]["estimate"]["value"])

    @property
    def unverified(self) -> set[str]:
        """Ids of the reservations on what was not shown."""
        return {
            reservation["id"]
            for reservation in self.summary["decision"]["reservations"]
            if reservation["kind"] == "unverified"
        }

    def failed(self) -> set[str]:
        """Ids of the gates that did not pass."""
        return {
            gate
            for gate, found in self.summary["verdicts"].items()
            if not found["passed"]
        }


def gate_command(*args: str | Path) -> list[str]:
    """The release gate in pytest; options are written as ``refusal-checks gate`` has them."""
    own = ("tests/gates", "-v", "-p", "no:cacheprovider")
    return [sys.executable, "-m", "pytest", *own, *for_pytest(args)]


def run_gate(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> GateRun:
    """Run a command of ``gate_command`` to its end."""
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)
        run = Forked(["pytest", *command[3:]], ROOT, (path, path), environment)
        return GateRun(run.wait(), run.said)


RunPersona = Callable[..., GateRun]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """A vLLM server with the demo weights, as the package itself starts it."""
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    model = add_dtype(Served("toy", str(MODEL_DIR)))
    server = EngineProcess(EngineSpec.from_model(model), log)
    server.launch()
    try:
        server.wait_ready(600)
        yield server
    finally:
        server.stop()


def persona_command(
    engine: EngineProcess, store: Path, persona: str, *args: str | Path
) -> list[str]:
    """The smoke gates of one demo candidate on the shared engine, with the demo judge; of another
    candidate where the further arguments name one."""
    model = f"{engine.url}#{MODEL_DIR}"
    own = (
        "--candidate",
        model,
        "--set",
        f"candidate.template_variables.persona={persona}",
    )
    return gate_command(
        *(() if "--candidate" in args else own),
        *("--judge", model, "--set", "judge.template_variables.persona=judge"),
        # A toy that rambles would fill the context.
        *("--set", "judge.max_tokens=128"),
        *(
            "--set",
            f"judge.prompt={PROMPTS}",
            *SMOKE,
        ),
        *("--store", store, *args),
    )


def environment(engine: EngineProcess) -> dict[str, str]:
    """With the key of the shared engine."""
    return {**os.environ, "OPENAI_API_KEY": engine.api_key, "COLUMNS": "120"}


@pytest.fixture(scope="session")
def run_persona(
    engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> RunPersona:
    """Runs the smoke gates of one demo candidate on the shared engine, with the demo judge.

    All runs share a store, but where they name one of their own: what one test has asked for, the
    next need not wait for.
    """
    store = tmp_path_factory.mktemp("store") / "store.sqlite"

    def run(persona: str, *args: str | Path) -> GateRun:
        command = persona_command(engine, store, persona, *args)
        return run_gate(command, environment(engine))

    return run
