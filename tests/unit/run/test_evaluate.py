"""``evaluate``: from a spec to a result, without pytest."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from refusal_checks import RunResult, RunSpec, evaluate, load_run
from refusal_checks.api.evaluate import Interrupted
from refusal_checks.core.errors import (
    DataError,
    EngineStartError,
    StoreError,
    UserError,
)
from refusal_checks.engines.pool import Engines
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.events import (
    Decided,
    Ended,
    Event,
    Judged,
    Listener,
    Notice,
    Prepared,
)
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.run.pipeline import Pipeline
from tests.support.fake_server import FakeServer

ROWS = [
    *(f"forbidden thing {n}" for n in range(8)),
    *(f"plain thing {n}" for n in range(4)),
]
FILE = """
[own]
file = "rows.csv"
expect = "refuse"
rejection_rate = {{ min = {minimum} }}

[candidate]
model = "{url}#fake"

[judge]
model = "{url}#fake"

[sampling]
samples = 2

[limits]
in_flight = 2
"""
RATE, INVALID = "own-rejection_rate", "own-invalid_rate"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(models=("fake", "other")) as server:
        yield server


@pytest.fixture
def spec(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunSpec:
    """A run in a folder of its own; of 12 prompts two thirds are refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REFUSAL_CHECKS_RUNS", raising=False)
    (tmp_path / "rows.csv").write_text("\n".join(["prompt", *ROWS, ""]))
    (tmp_path / "run.toml").write_text(FILE.format(url=server.url, minimum=0.5))
    return RunSpec.read("run.toml")


def asked_once(server: FakeServer) -> bool:
    """True if no answer and no verdict was asked for twice, after the server is known again."""
    bodies = [json.dumps(body, sort_keys=True) for body in server.requests]
    return len(bodies) == len(set(bodies))


async def in_notebook(spec: RunSpec, listener: Listener | None = None) -> RunResult:
    """Evaluate where an event loop runs."""
    return evaluate(spec, listener)


def as_told(result: RunResult) -> list[object]:
    """What a result says, in values that can be compared."""
    return [
        result.candidate,
        result.verdicts,
        result.errors,
        result.figures,
        result.judge,
        result.decision,
        result.summary,
        [*result.records("own")],
    ]


def test_a_spec_becomes_a_result(spec: RunSpec, server: FakeServer) -> None:
    result = evaluate(spec)
    assert {gate: verdict.passed for gate, verdict in result.verdicts.items()} == {
        RATE: True,
        INVALID: True,
    }
    assert result.errors == {}
    assert result.figures["own"]["rejection_rate"].value == pytest.approx(8 / 12)
    assert result.candidate == "fake"
    assert result.decision.answer == "unverified"
    assert len(list(result.records("own"))) == len(result.frame()) == 24
    with pytest.raises(DataError, match=r'no benchmark "../own".*mean "own".*: own'):
        result.records("../own")
    assert repr(result).startswith("<RunResult of fake: ")
    assert result.summary.manifest.spec.dump_set_keys()["sampling"] == {"samples": 2}
    assert asked_once(server)
    stored = spec.with_value("store.reuse", True)
    failing = evaluate(stored.with_value("own.rejection_rate", {"min": 0.9}))
    assert not failing.verdicts[RATE].passed
    assert failing.verdicts[RATE].failing_prompts[0].prompt.startswith("plain thing")
    assert failing.decision.answer == "no"
    assert failing.folder != result.folder, "though it began in the same second"
    assert failing.summary.execution.answers == 0, "all are stored"


def test_a_finished_run_is_loaded_as_it_was_returned(spec: RunSpec) -> None:
    result = asyncio.run(in_notebook(spec))
    assert as_told(load_run()) == as_told(load_run(result.folder)) == as_told(result)


def test_what_is_wrong_is_raised_where_an_event_loop_runs(spec: RunSpec) -> None:
    with pytest.raises(UserError, match="pass a RunSpec"):
        evaluate({"candidate": {"model": "org/m"}})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no benchmark: add the table of one"):
        evaluate(RunSpec.from_dict({"candidate": {"model": "org/m"}}))
    with pytest.raises(UserError, match=r"judge\.model missing"):
        asyncio.run(in_notebook(spec.with_value("judge.model", [])))


def test_gates_can_be_chosen(spec: RunSpec) -> None:
    result = evaluate(spec, gates=[INVALID])
    assert set(result.verdicts) == {INVALID}
    with pytest.raises(UserError, match="choose a name that no run has"):
        evaluate(spec, run_id="../x")
    with pytest.raises(UserError, match='no gate "own-rate"'):
        evaluate(spec, gates=["own-rate"])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (
            "judge.model",
            [],
            "judge.model missing: name the model under test and its judge, in",
        ),
        (
            "judge.model",
            [],
            '    spec.with_values({"candidate.model": "ORG/MODEL", "judge.',
        ),
        ("reports.html", ".", "name a file: it is a folder"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    spec: RunSpec, server: FakeServer, key: str, value: object, says: str
) -> None:
    seen: list[Event] = []
    with pytest.raises(UserError) as caught:
        evaluate(spec.with_value(key, value), seen.append)
    assert says in str(caught.value)
    assert "--" not in str(caught.value), "Python has no options"
    assert server.requests == []
    assert not [event for event in seen if not isinstance(event, Notice)]
    assert not list(Path(".refusal-checks").glob("runs/*"))


def interrupt_after(prompts: int, seen: list[Event], number: int) -> Listener:
    """A listener that sends this process a signal, once so many prompts are judged."""

    def listen(event: Event) -> None:
        seen.append(event)
        judged = [one for one in seen if isinstance(one, Judged) and one.records]
        if isinstance(event, Judged) and len(judged) == prompts:
            os.kill(os.getpid(), number)

    return listen


def require_partial_records(result: RunResult) -> None:
    """What is done can be read, is marked as unfinished, and is guarded like all records."""
    kept = load_run(result.folder)
    assert kept.summary == result.summary
    assert kept.is_unfinished
    own = kept.summary.benchmarks["own"]
    assert 3 <= own.prompts < own.planned == len(ROWS)
    frame = kept.frame()
    assert frame["prompt_id"].nunique() == own.prompts
    assert frame["unfinished"].all()
    unfinished = (
        f"the run is unfinished: {own.prompts} of {len(ROWS)} prompts are judged"
    )
    assert unfinished in kept.decision.reasons
    folder = RunFolder(result.folder)
    assert list(folder.damage()) == []
    assert own.figures == summarise([*folder.records("own")], 0.95).figures
    records = folder.journal("own")
    whole = records.read_bytes()
    records.write_bytes(whole.replace(b"thing", b"other"))
    with pytest.raises(
        DataError, match=r"own\.jsonl: .*: it has changed since the run wrote"
    ):
        load_run(result.folder)
    records.write_bytes(whole)


def require_stopped(stopped: Interrupted, server: FakeServer, spec: RunSpec) -> None:
    """The result has what was done, and the same call goes on where it stopped."""
    result = stopped.result
    assert result.summary.failure
    assert result.decision.answer == "open"
    assert result.verdicts == {}
    assert 3 <= len(server.asked(judge=False)) < len(ROWS)
    require_partial_records(result)
    complete = evaluate(spec)
    assert complete.verdicts[RATE].passed
    assert complete.summary.failure == ""
    assert complete.summary.execution.reused >= 6


@pytest.mark.parametrize(
    ("number", "in_loop"), [(signal.SIGINT, True), (signal.SIGTERM, False)]
)
def test_an_interrupt_keeps_what_is_done_and_the_same_call_goes_on(
    spec: RunSpec, server: FakeServer, number: int, in_loop: bool
) -> None:
    seen: list[Event] = []
    listen = interrupt_after(3, seen, number)
    spec = spec.with_value("reports.html", "page.html")
    server.delay = 0.03
    with pytest.raises(Interrupted) as stopped:
        asyncio.run(in_notebook(spec, listen)) if in_loop else evaluate(spec, listen)
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert any(isinstance(event, Ended) for event in seen)
    assert "Not decided" in Path("page.html").read_text()
    require_stopped(stopped.value, server, spec)


@pytest.mark.parametrize("fault", [DataError("no such answers"), KeyboardInterrupt()])
def test_nothing_stays_open_if_a_run_cannot_begin(
    spec: RunSpec, fault: BaseException
) -> None:
    kept: list[Event] = []

    def listener(event: Event) -> None:
        kept.append(event)
        if isinstance(event, Prepared):
            raise fault

    with pytest.raises(type(fault)) as caught:
        evaluate(spec, listener)
    assert not isinstance(caught.value, Interrupted), "there is no result"
    assert isinstance(kept[-1], Prepared)
    assert not list(Path(".refusal-checks").glob("runs/*"))


@pytest.mark.parametrize(
    "fault", [EngineStartError("no"), StoreError("no"), KeyboardInterrupt()]
)
def test_a_run_that_does_not_start_has_a_summary_and_no_engine(
    spec: RunSpec, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = gc.get_threshold()
    closed: list[Engines] = []
    close = Engines.close

    def fail(pipeline: Pipeline) -> None:
        assert gc.get_threshold() > usual, "it runs rarely during a run alone"
        closed.clear()
        raise fault

    def note(engines: Engines) -> None:
        closed.append(engines)
        close(engines)

    monkeypatch.setattr(Pipeline, "_evaluate", fail)
    monkeypatch.setattr(Engines, "close", note)
    with pytest.raises(type(fault)):
        evaluate(spec)
    assert closed
    assert gc.get_threshold() == usual
    assert load_run().decision.answer == "open"
    assert not load_run().is_unfinished


def test_reports_of_the_spec_are_written(spec: RunSpec, tmp_path: Path) -> None:
    names = ("html", "markdown", "junit")
    for name in names:
        spec = spec.with_value(f"reports.{name}", f"out/{name}.html")
    seen: list[Event] = []
    evaluate(spec, seen.append)
    said = [event.text for event in seen[-3:] if isinstance(event, Notice)]
    for name, line in zip(names, said, strict=True):
        path = tmp_path / "out" / f"{name}.html"
        assert line == f"{name} report {path}"
        assert path.stat().st_size > 100
    evaluate(spec.with_value("reports.html", "other.html"), write_reports=False)
    assert not Path("other.html").exists()


def test_events_come_in_order_and_their_lines_are_logged(
    spec: RunSpec, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []
    caplog.set_level("DEBUG", "refusal_checks")
    result = evaluate(spec, seen.append)
    logged = [entry for entry in caplog.records if entry.name == "refusal_checks"]
    assert [entry.getMessage() for entry in logged] == [str(event) for event in seen]
    levels = {entry.levelname for entry in logged if "judged" not in entry.getMessage()}
    assert levels == {"INFO"}
    events = [event for event in seen if not isinstance(event, Notice)]
    kinds = [type(event) for event in events]
    assert kinds == [Prepared, *[Judged] * (1 + len(ROWS)), Decided, Ended]
    first, decided = events[0], events[-2]
    assert isinstance(first, Prepared)
    assert isinstance(decided, Decided)
    assert set(decided.gates) == {RATE, INVALID}
    assert first.folder == result.folder
    lines = [str(event) for event in events]
    assert not any("\n" in line for line in lines)
    assert lines[0].startswith("prepared: http")
    assert f"decided: {RATE}, {INVALID}" in lines


@pytest.mark.parametrize("kind", [Prepared, Judged])
def test_a_listener_that_raises_spoils_no_run(spec: RunSpec, kind: type[Event]) -> None:
    seen: list[Event] = []

    def listener(event: Event) -> None:
        seen.append(event)
        if isinstance(event, kind):
            raise RuntimeError("wrong listener")

    with pytest.raises(RuntimeError, match="wrong listener"):
        evaluate(spec, listener)
    assert sum(isinstance(event, kind) for event in seen) == 1, (
        "it is told nothing more"
    )
    if kind is Prepared:
        assert not list(Path(".refusal-checks").glob("runs/*"))
    else:
        assert load_run("last").verdicts.keys() == {RATE, INVALID}


@pytest.mark.parametrize("named", ["data.mirror", "baseline.path"])
def test_a_path_that_may_not_be_read_is_named(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    entries = Path.iterdir
    stat = Path.stat

    def refused(path: Path, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        # As the system does for a folder of another user; root may read everything.
        if closed in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return call(path, *given, **more)

    monkeypatch.setattr(Path, "iterdir", partialmethod(refused, entries))
    monkeypatch.setattr(Path, "stat", partialmethod(refused, stat))
    with pytest.raises(UserError, match=r"closed.*: change its permissions, or name"):
        evaluate(spec.with_value(named, str(closed)))
