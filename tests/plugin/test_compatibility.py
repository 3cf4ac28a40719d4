"""What an earlier release left is read: its store, its baseline, and a finished run's folder.

``tests/data/before_house`` was written by the commit before every module moved: one run of
``gates.toml`` (``--samples 2 --limit 4``) whose candidate and judge stood at ``URL``, accepted as
a baseline, and one verdict of each type added to its store, dumped as SQL.
"""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Binary, Chosen, Graded, Label, Rated
from tests.fake_server import FakeServer
from tests.plugin.conftest import ROOT, Project
from tests.tiny_proxy import TinyProxy

OLD = ROOT / "tests" / "data" / "before_house"
LATER = "worst_of_k_rate"
URL = "http://model.test/v1#fake"
"""Candidate and judge of the recorded run: part of the keys of all that its store holds."""


OLD_DRAW = f"""
from refusal_checks.run import assembly

drawn = {
    sorted(
        name
        for path in (OLD / "baseline").iterdir()
        for name in json.loads(path.read_text())["prompts"]
    )
}
assembly.stratified = lambda prompts, limit: tuple(p for p in prompts if p.id in drawn)
"""  # --limit draws others today
"""A conftest by which ``--limit`` draws the prompts that it drew then."""


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run, overall and by group, and whether its gates passed.

    Without intervals, which are other ones since; and without figures that came later.
    """

    def values(estimates: dict[str, Any]) -> dict[str, Any]:
        return {name: (one["value"], one["n"]) for name, one in estimates.items() if name != LATER}

    figures = {
        name: [
            values(part["figures"]),
            {
                kind: {group: values(estimates) for group, estimates in groups.items()}
                for kind, groups in part.get("groups", {}).items()
            },
            part["answers"],
        ]
        for name, part in found["benchmarks"].items()
    }
    verdicts = found["verdicts"]
    return {"figures": figures, "passed": {gate: verdicts[gate]["passed"] for gate in verdicts}}


def command(*words: str | Path) -> str:
    """The output of ``refusal-checks``."""
    arguments = [str(word) for word in words]
    return CliRunner().invoke(application(), arguments, catch_exceptions=False).output


@pytest.fixture
def old_store(project: Project) -> Path:
    path = project.path / "store.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript((OLD / "store.sql").read_text())
    database.close()
    return path


def test_a_run_on_an_old_store_asks_for_nothing_and_finds_the_same(
    project: Project, old_store: Path
) -> None:
    """The recorded run again, compared with its own baseline."""
    # Four prompts cannot show that nothing changed, so the margin alone would be refused today.
    gates = (OLD / "gates.toml").read_text().replace(" }", ', on_inconclusive = "warn" }', 1)
    project.thresholds(gates)
    project.conftest(OLD_DRAW)
    with FakeServer(tokens=lambda body: {"1": 1.0}) as server, TinyProxy(server.port) as proxy:
        project.setenv("http_proxy", proxy.url)
        result = project.run(
            *("--candidate", URL, "--judge", URL, "--samples", "2", "--limit", "4"),
            *("--max-tokens", "1024"),  # the default then
            *("--store", old_store, "--baseline", OLD / "baseline"),
        )
    result.assert_outcomes(passed=3, failed=1)
    assert server.asked(judge=False) == []
    assert len(server.asked(judge=True)) == 1, "whether its probabilities can be read"
    assert figures(project.summary()) == figures(json.loads((OLD / "run/summary.json").read_text()))
    verdict = project.summary()["verdicts"]["smoke_unsafe-rejection_rate"]
    assert verdict["comparison"]["change"]["value"] == 0


def test_an_old_store_holds_every_type_of_verdict(old_store: Path) -> None:
    verdicts = {
        "binary": Binary(Label.REFUSAL, "direct_refusal", "why", 3),
        "graded": Graded(2, "why"),
        "rated": Rated(0.5, 4.0, 0.1),
        "chosen": Chosen("A", True, "a rule"),
    }
    with Store(old_store) as store:
        assert store.judgements(verdicts) == verdicts


def test_an_old_run_is_shown_reported_and_accepted_again(project: Project) -> None:
    shown = command("runs", "show", OLD / "run")
    assert re.search(r"smoke_unsafe-rejection_rate +75\.0% \[30\.1, 95\.4\]", shown)
    command("report", "html", "report.html", OLD / "run")
    assert "smoke-unsafe-007" in Path("report.html").read_text()
    command("runs", "export", OLD / "run", "answers.jsonl")
    assert Path("answers.jsonl").read_text().count("\n") == 24
    command("baseline", "accept", OLD / "run", "again")
    for path in (OLD / "baseline").iterdir():
        assert json.loads(Path("again", path.name).read_text()) == json.loads(path.read_text())
