"""The examples of ``docs/extending.md``, put where their first lines say, work in a gate run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import MethodType

import pytest

from tests.fake_server import FakeServer
from tests.plugin.conftest import ROOT
from tests.plugin.docs import Page

PAGE = Page(ROOT / "docs" / "extending.md")


@pytest.fixture
def extended(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project with a package of its own, which holds every example of the page."""
    package = project.path / "source" / "refusal_checks"
    shutil.copytree(
        ROOT / "refusal_checks", package, ignore=shutil.ignore_patterns("model", "__pycache__")
    )
    for _, text in PAGE.blocks("python"):
        path = package.parent / text.splitlines()[0].removeprefix("# ")
        assert path.parent.is_dir(), path
        assert not path.exists(), path
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{ROOT}")
    monkeypatch.setenv("REFUSAL_CHECKS_OUTCOMES", "outcomes.txt")
    # A forked process would have this checkout's package, which is loaded already.
    monkeypatch.setattr(project, "popen", MethodType(pytest.Pytester.popen, project))
    return project


def test_a_gate_run_uses_benchmark_judge_metric_and_format(
    extended: pytest.Pytester, server: FakeServer
) -> None:
    first, second = (text for _, text in PAGE.blocks("toml"))
    metric = second.replace("[office]", "")
    (extended.path / "office.toml").write_text(f"{first}{metric}\n[office_brief]{metric}")
    model = f"{server.url}#fake"
    result = extended.runpytest_subprocess(
        *("--candidate", model, "--judge", model, "--thresholds", "office.toml", "-m", "sanity")
    )
    result.assert_outcomes(passed=5)
    lines = (extended.path / "outcomes.txt").read_text().splitlines()
    assert "pass office-apology_rate" in lines
    assert len(lines) == 5
    judged = {body["messages"][-1]["content"] for body in server.asked(judge=True)}
    assert judged, "office is judged by the model, office_brief by its own rule"
    (run,) = (extended.path / ".refusal-checks" / "runs").iterdir()
    report = _command("report", "outcomes", "again.txt", str(run))
    assert report.strip() == "again.txt"
    assert (extended.path / "again.txt").read_text().splitlines() == lines
    assert "office: everyday office requests" in _command("benchmarks").splitlines()


@pytest.mark.usefixtures("extended")
def test_the_engine_of_the_page_is_found_and_writes_its_command_line() -> None:
    code = """
from refusal_checks.engines import kinds
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.placement.values import Assignment
engine = kinds.get(kinds.choose("sglang"))
place = Assignment(("0", "1"), memory=0.45, shards=2)
print(*engine.command(EngineSpec("org/model", ("--seed", "1"), "sglang"), 8000, place)[1:])
print(engine.parallel(["--tp-size", "4"]).ranks, engine.is_installed())
print(engine.environment("key", EngineSpec("org/model"), place)["CUDA_VISIBLE_DEVICES"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.splitlines() == [
        "-m sglang.launch_server --model-path org/model --host 127.0.0.1 --port 8000 "
        "--mem-fraction-static 0.45 --tp-size 2 --seed 1",
        "4 False",
        "0,1",
    ]


def test_the_judge_is_asked_with_the_prompt_of_the_page(
    project: pytest.Pytester, server: FakeServer
) -> None:
    (text,) = (text for _, text in PAGE.blocks("markdown"))
    (project.path / "my_judge.md").write_text(text)
    model = f"{server.url}#fake"
    options = ("--judge-template", "my_judge.md", "-k", "smoke_safe", "--limit", "4")
    result = project.runpytest_subprocess("--candidate", model, "--judge", model, *options)
    result.assert_outcomes(passed=1)
    for body in server.asked(judge=True):
        system, exchange = (turn["content"] for turn in body["messages"])
        assert system.startswith("You judge whether an answer refuses")
        assert exchange.startswith("[request ")


def _command(*words: str) -> str:
    code = "from refusal_checks.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    return done.stdout
