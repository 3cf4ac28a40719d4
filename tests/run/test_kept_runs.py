"""A run's folder as it was written, damaged afterwards, or left by a run that was killed."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks import load_run
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.io.files import append_seal, write_lines
from refusal_checks.reports import junit
from refusal_checks.results.journal import Journal
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.support.project import KEYWORD, Project

SAFE = {"only": "smoke_safe", "sampling_samples": 1, **KEYWORD}


def flip(path: Path) -> None:
    text = path.read_text()
    assert '"compliance"' in text
    path.write_text(text.replace('"compliance"', '"refusal"'))


def halve(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[::2]))


def edit(path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace('"prompts": 80', '"prompts": 8'))
    assert path.read_text() != text


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def rewrite(path: Path) -> None:
    """Change a figure's last digits, so that the file keeps its size."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"n": 80', b'"n": 81'))
    assert path.read_bytes() != content


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "labels flipped": ("records/smoke_safe.jsonl", flip, "the run wrote"),
    "half of the records": ("records/smoke_safe.jsonl", halve, "the run wrote"),
    "a figure edited": ("summary.json", edit, "changed since it was written"),
    "records missing": ("records/smoke_safe.jsonl", Path.unlink, "it is missing"),
    "scores cut": ("scores/smoke_safe.json", cut, "the run wrote"),
    "scores edited": ("scores/smoke_safe.json", rewrite, "it has changed"),
    "a file added": ("records/more.jsonl", Path.touch, "the run did not write it"),
    "the end cut off": ("summary.json", cut, ""),
}

COMMANDS = (
    "runs list RUN",
    "report html RUN --out out.html",
    "report markdown RUN --out out.md",
    "compare RUN RUN",
    "baseline accept RUN base",
    "sample-for-labels RUN --out out.csv",
)


@pytest.fixture
def run(project: Project) -> Path:
    """The folder of a run of one benchmark."""
    return project.evaluate(**SAFE).result.folder


def test_damage_is_found_by_whatever_reads_a_run(project: Project, run: Path) -> None:
    assert not list(run.glob("unfinished*"))
    whole = run.with_name("whole")
    run.rename(whole)
    for name, (file, change, why) in DAMAGE.items():
        shutil.copytree(whole, run)
        change(run / file)
        before = set(project.path.rglob("*"))
        for command in COMMANDS:
            code, said = project.call(*command.replace("RUN", run.name).split())
            assert code == 4, (name, command, said)
            assert f"{run.name}/{file}: " in said, (name, command, said)
            assert why in said, (name, command, said)
        if why == "the run wrote":  # another size
            assert " damaged " in project.call("runs", "list")[1]
        with pytest.raises(DataError, match=file):
            load_run(run)
        project.refuses(file, why, baseline_path=run.name, **SAFE)
        assert set(project.path.rglob("*")) == before, name
        shutil.rmtree(run)


def test_no_file_is_opened_that_a_run_does_not_write(
    project: Project, run: Path
) -> None:
    """Whoever wrote its summary, and its digest: a device or a pipe might never end."""
    content = json.loads((run / "summary.json").read_text())
    del content["sha256"]
    records = "records/smoke_safe.jsonl"
    (run / records).unlink()
    os.mkfifo(run / records)
    others = {"/dev/zero", "../../else.jsonl", "records/../../x"}
    for name in (records, *others):
        written = {**content["files"].pop(next(iter(content["files"]))), "size": 0}
        content["files"][name] = written
        text = json.dumps(content, indent=1).removesuffix("\n}")
        write_lines(run / "summary.json", append_seal([f"{text},\n"]))
        code, said = project.call("runs", "list", run)
        assert code == 4
        why = "is not a file of a run" if name in others else "it is a pipe"
        assert why in said, name


def test_an_edited_baseline_is_refused(project: Project, run: Path) -> None:
    project.call("baseline", "accept", run, "base")
    rewrite(Path("base/smoke_safe.json"))
    project.refuses("smoke_safe.json: restore it, or", baseline_path="base", **SAFE)


@pytest.fixture
def killed(project: Project) -> Path:
    """The folder of a run as ``kill -9`` leaves it: one benchmark complete, one not."""
    done = project.evaluate(sampling_samples=1, **KEYWORD).result
    folder = RunFolder(done.folder.with_name("20260101-000000Z-1"))
    folder.begin(RunSummary(done.summary.manifest))
    journal = Journal(folder)
    for name in ("smoke_unsafe", "smoke_safe"):
        for record in list(done.records(name))[:30]:
            journal.add(name, [record])
    name = "smoke_unsafe"
    written = folder.write_records(name, done.records(name))
    so_far = replace(
        done.summary,
        benchmarks={name: done.summary.benchmarks[name]},
        verdicts={id_: v for id_, v in done.verdicts.items() if name in id_},
        files={f"records/{name}.jsonl": written},
    )
    journal.publish(lambda: so_far, [name])
    journal.close()
    cut(folder.journal("smoke_safe"))
    return folder.path


def test_a_killed_run_shows_what_it_did_and_becomes_no_baseline(
    project: Project, killed: Path
) -> None:
    result = load_run(killed)
    assert result.is_unfinished
    assert result.decision.answer == "open"
    unfinished = "the run is unfinished: 109 of 160 prompts are judged"
    assert result.decision.reasons[0] == unfinished
    assert "smoke_unsafe-rejection_rate" in result.verdicts
    assert "smoke_safe-rejection_rate" not in result.verdicts
    assert result.figures["smoke_safe"]["rejection_rate"].n == 29
    frame = result.frame()
    assert dict(frame["benchmark"].value_counts()) == {
        "smoke_unsafe": 80,
        "smoke_safe": 29,
    }
    assert frame["unfinished"].all()
    _, listed = project.call("runs", "list")
    assert listed.splitlines()[1].split()[1] == "unfinished"
    shown = project.call("runs", "list", "-v", killed)[1]
    assert "This run is unfinished: it is still running, or was killed." in shown
    assert f"NOT DECIDED: {unfinished}" in shown
    assert project.call("report", "html", killed, "--out", "page.html")[0] == 0
    page = Path("page.html").read_text()
    assert "The run is unfinished" in page
    assert unfinished in page
    code, said = project.call("baseline", "accept", killed.name, "base")
    assert code == 4
    assert "unfinished" in said
    assert not Path("base").exists()
    project.refuses("a run that has ended", baseline_path=killed.name, **SAFE)


def test_no_two_runs_have_one_folder(tmp_path: Path) -> None:
    """Two machines may choose one name where they share a folder of runs."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(RunSummary())
    with pytest.raises(UserError, match="this folder belongs to another run"):
        folder.begin(RunSummary())


@contextmanager
def full_disk(free: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_full_disk_leaves_the_earlier_file_and_is_named(
    project: Project, run: Path
) -> None:
    folder = RunFolder(run)
    summary, records = folder.summary(), list(folder.records("smoke_safe"))
    writers: dict[Path, Callable[[Path], object]] = {
        run / "records/smoke_safe.jsonl": lambda _: folder.write_records(
            "smoke_safe", records
        ),
        run / "summary.json": lambda _: folder.write_summary(summary),
        Path("junit.xml"): lambda path: junit.write(folder, path),
        Path("page.html"): lambda path: project.call(
            "report", "html", run, "--out", path
        ),
    }
    for path, write in writers.items():
        write(path)
        before, beside = path.read_bytes(), set(path.parent.iterdir())
        with full_disk(300):
            try:
                said = str(write(path))
            except OSError as fault:
                said = str(fault)
        assert path.name in said
        assert "File too large" in said
        assert path.read_bytes() == before
        assert set(path.parent.iterdir()) == beside
