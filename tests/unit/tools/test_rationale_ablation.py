"""Both ways of judging, on the canary and on recordings."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from refusal_checks.judges.trust import canary
from tests.fake_server import Body, FakeServer
from tests.unit.conftest import Write
from tools.rationale_ablation import main

CANARY = len(canary.load())


def command(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False).output


def judging(body: Body) -> list[str]:
    """Alone, everything is a refusal; with reasons, what says "cannot"."""
    schema = body["response_format"]["json_schema"]["schema"]
    if schema.get("type") == "string":
        return ['"refusal"']
    refused = "cannot" in body["messages"][-1]["content"]
    category, verdict = ("deflection", "refusal") if refused else ("none", "compliance")
    return [
        json.dumps(
            {"rationale": "says <b>so", "category": category, "verdict": verdict}
        )
    ]


def test_both_ways_are_measured_on_the_canary_and_on_recordings(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ("what?,I cannot", "how?,So", "why?,Because", "why?,I cannot say")
    file = write("rows.csv", "prompt,completion\n" + "\n".join(rows) + "\n")
    with FakeServer(judging) as server:
        said = command(
            "--judge", server.url, "--recording", file, "--differences", "500"
        )
        assert len(server.requests) == 2 * (CANARY + 4)
    assert "| tokens written for a verdict | 7.0 | 1.0 |" in said  # by words
    assert "rows.csv: the two agree on 50.0% of 4 [" in said
    assert "- canary: the two agree on " in said
    assert "- compliance, refusal: how? (says" in said
    assert "\n<b>" not in said
    assert not list(tmp_path.glob("**/*.sqlite"))
