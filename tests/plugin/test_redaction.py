"""No text of a prompt, answer or rationale in any file or line of a redacted run."""

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from aiohttp import web

from refusal_checks.reports.formats import discover
from tests.fake_server import Body, FakeServer, Fault
from tests.plugin.conftest import (
    KEYWORD,
    Project,
    in_both_modes,
    judged,
    refused,
    saying,
)

PROMPT, SYSTEM, ANSWER = "Bake a Xylocake", "Be a Quillfish", "Take nine Zweibacks"
RATIONALE, REASON, ERROR = (
    "It hands out Vermicelli",
    "Ended by Kumquat",
    "Crash on Yarrow",
)
NAME = "You asked me about Tamarillo"
TEXTS = (PROMPT, SYSTEM, ANSWER, RATIONALE, REASON, ERROR, NAME)
SECRETS = tuple(text.split()[-1] for text in TEXTS)

THRESHOLDS = """
[mine]
file = "rows.jsonl"
expect = "refuse"
prompt = "text"
category = "kind"
rejection_rate = { min = 0.99 }
"""

OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-v",),
    ("-vv",),
    ("-l",),
    ("--tb=long",),
    ("--full-trace",),
    ("-rA",),
    ("-s",),
    ("--log-cli-level=DEBUG",),
    ("--log-level=DEBUG", "--log-file=debug.log"),
    ("--junitxml=report.xml",),
    ("--junit-prompts=prompts.xml",),
    ("--html=report.html",),
    ("--fresh",),
    ("--samples=2",),
    ("--offenders=50",),
    ("--set=judge.max_answer_chars=100",),
    ("--system-prompt", SYSTEM),
    ("--durations=0",),
    ("--stop-early",),
)


def telling(body: Body) -> list[str]:
    """Answers with a secret; judges with one, unreadably at times, and not twice the same."""
    text = body["messages"][0]["content"] + body["messages"][-1]["content"]
    if "response_format" not in body:
        return [f"{ANSWER} {text[-9:]}"] * body["n"]
    return (
        [f"no verdict: {RATIONALE}"]
        if "number 2" in text
        else judged("other:" in text, RATIONALE)
    )


class Telling(FakeServer):
    """Says a secret as the reason for an end, as its model's name, and in its errors."""

    def _choice(self, index: int, said: str | Body) -> Body:
        choice = super()._choice(index, said)
        return choice | ({"finish_reason": REASON} if "number 3" in str(said) else {})

    def _answered(self, body: Body, choices: Sequence[Body]) -> web.Response:
        answer = json.loads(super()._answered(body, choices).text or "")
        return web.json_response({**answer, "model": NAME})

    async def _fault(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        return web.json_response({"error": {"message": ERROR}}, status=400)


@pytest.fixture
def project(project: Project) -> Iterator[Project]:
    """A project whose only benchmark has secrets for prompts."""
    rows = [
        {"id": f"p{i}", "text": f"{PROMPT} number {i}", "kind": "food"}
        for i in range(6)
    ]
    project.write_rows("thresholds/rows.jsonl", rows)
    project.thresholds(THRESHOLDS)
    project.setenv("GITHUB_STEP_SUMMARY", str(project.path / "step.md"))
    project.setenv("GITHUB_ACTIONS", "true")
    with Telling(telling) as project.server:
        project.server.failing = {f"{PROMPT} number 4": 400}
        yield project


def texts(project: Project, result: pytest.RunResult) -> dict[str, str]:
    """All that a run said and wrote, by file."""
    earlier = project.runs[:-1]
    files = {
        str(path.relative_to(project.path)): path.read_bytes().decode(
            "utf-8", "replace"
        )
        for path in project.path.rglob("*")
        if path.is_file()
        and path.parent.name != "thresholds"
        and ".sqlite" not in path.name
        if not any(map(path.is_relative_to, earlier))
    }
    return {"output": result.stdout.str() + result.stderr.str(), **files}


def leaks(project: Project, result: pytest.RunResult) -> set[tuple[str, str]]:
    """Which secrets are in which of these."""
    known = texts(project, result)
    return {
        (name, word) for name, text in known.items() for word in SECRETS if word in text
    }


@pytest.mark.parametrize(
    "group",
    [0, *(pytest.param(group, marks=pytest.mark.nightly) for group in range(1, 6))],
)
def test_nothing_is_told_whatever_the_options(project: Project, group: int) -> None:
    models = (
        "--candidate",
        project.model,
        "--judge",
        project.model,
        "--samples=1",
        "--redact",
    )
    for number in range(5):
        chance = random.Random(5 * group + number)
        chosen = chance.sample(OPTIONS, 7)
        mixture = [word for each in chosen for word in each]
        result = project.run(
            *models, *mixture, *(["-n2"] if number == 4 and group else [])
        )
        assert result.ret == 1, mixture
        assert "[redacted: sha256" in texts(project, result)["output"], mixture
        assert not leaks(project, result), mixture


def test_a_run_that_shows_all_that_can_be_shown_tells_nothing_but_without_redaction_all(
    project: Project,
) -> None:
    project.server.answer = saying("I cannot help")
    project.gate()
    (project.path / "step.md").unlink()
    project.server.answer = telling
    for judge in ("one", "two", "other"):
        project.write(
            f"{judge}.md",
            f"{judge}: {{{{ request }}}} / {{{{ answer }}}} / {{{{ marker }}}}",
        )
    formats = {
        name: found
        for name, found in discover().items()
        if not hasattr(found, "METAVAR")
    }
    everything = (
        *(
            "--baseline",
            str(project.runs[0]),
            "--set",
            "baseline.allow_incomparable=true",
        ),
        *("--seed", "9"),
        *(
            "--judge",
            project.model,
            "--judge",
            project.model,
            "--system-prompt",
            SYSTEM,
        ),
        *(f"--judge-prompt={judge}.md" for judge in ("one", "two", "other")),
        *("--junitxml", "report.xml", "-rA", "-v", "--showlocals"),
        *(
            f"{found.OPTION}={name}.out"
            for name, found in formats.items()
            if found.OPTION
        ),
    )
    result = project.gate(*everything, "--redact", "-n2")
    assert result.ret == 1
    assert not leaks(project, result)
    known = texts(project, result)
    assert sum(name.endswith(".out") for name in known) >= 3
    known["run"] = "".join(
        known[name] for name in known if name.startswith(".refusal-checks")
    )
    for name in ("output", "report.xml", "step.md", "run"):
        assert "[redacted: sha256" in known[name], name
    for part in ("p0", "::error title=mine-rejection_rate::", "compliance"):
        assert part in known["output"]

    result = project.gate(*everything)
    assert {word for _, word in leaks(project, result)} == set(SECRETS)
    assert "answer:    [redacted" not in result.stdout.str()


COMMANDS = """
runs list; runs list last -v; runs export last rows.jsonl; runs export last rows.parquet
report html last; report junit-prompts last; report pr-comment last
compare FIRST last; compare FIRST last --json; compare FIRST last --html compare.html
history; history --json; history --html history.html --reports; baseline accept last accepted
report svg last; init --suggest last
sample-for-labels last --out labels.csv; doctor --candidate MODEL --judge MODEL
gate MODEL --judge MODEL --redact --seed 2
store gc --dry-run; store gc --keep-runs 1
"""
NEED_OTHERS = ("sample-for-labels",)
"""What needs runs with texts."""


def test_no_command_tells_anything_of_redacted_runs_or_of_a_damaged_store(
    project: Project,
) -> None:
    for seed in ("1", "2"):
        assert project.gate("--redact", "--seed", seed).ret == 1
    named = {"FIRST": str(project.runs[0]), "MODEL": project.model}
    for line in COMMANDS.replace("\n", ";").strip(";").split(";"):
        command = line.strip()
        result = project.command(*(named.get(word, word) for word in command.split()))
        status = (
            1
            if command.startswith("gate")
            else 4
            if command.startswith(NEED_OTHERS)
            else 0
        )
        assert result.ret == status, command
        assert not leaks(project, result), command
    with closing(
        sqlite3.connect(project.path / ".refusal-checks" / "store.sqlite")
    ) as store:
        store.execute(
            "UPDATE judgements SET value = CAST(X'ff' || value AS TEXT) WHERE rowid % 2"
        )
        store.execute(
            "UPDATE completions SET value = replace(value, '{', '[') WHERE rowid % 2"
        )
        store.commit()
    result = project.gate("--redact", "--seed", "2", "--junitxml=report.xml", "-vv")
    assert "not as they were" in " ".join(result.stdout.str().split())
    assert not leaks(project, result)


SHOWING = """
runs list; runs list last -v; runs list last --json; runs export last rows.jsonl
report html last; report pr-comment last
report junit-prompts last; compare FIRST last --json
compare FIRST last --html compare.html; history --html history.html --reports
baseline accept last accepted; init --suggest last; sample-for-labels last --out labels.csv
calibrate --judge labels:verdict --labels labelled.csv --out quality
report svg last
"""
"""Every command that shows or writes something of a run; this one has texts."""


def test_one_rule_hides_the_texts_of_a_run_from_every_command(project: Project) -> None:
    for seed in ("1", "2"):
        assert project.gate("--seed", seed, "--system-prompt", SYSTEM).ret == 1
    row = f"{PROMPT},{ANSWER}"
    rows = [
        f"{row},refusal,refusal",
        f"{row} 2,compliance,refusal",
        f"{row} 3,refusal,compliance",
    ]
    project.write("labelled.csv", "prompt,completion,label,verdict\n" + "\n".join(rows))

    def told(command: str) -> tuple[int, set[tuple[str, str]]]:
        words = [
            "./labelled.csv" if word == "labelled.csv" else word
            for word in command.split()
        ]
        named = {"FIRST": str(project.runs[0])}
        result = project.command(*(named.get(word, word) for word in words))
        kept = (".refusal-checks", "labelled.csv", "step.md")
        found = {
            (name, word)
            for name, word in leaks(project, result)
            if not name.startswith(kept)
        }
        return int(result.ret), found

    commands = SHOWING.replace("\n", ";").strip(";").split(";")
    project.setenv("REFUSAL_CHECKS_REDACT", "1")
    for command in commands:
        status, found = told(command)
        assert not found, command
        assert status == (4 if command.split()[0] == "sample-for-labels" else 0), (
            command
        )
    for command in (
        "runs list last --json --redact",
        "runs export last more.jsonl --redact",
    ):
        project.setenv("REFUSAL_CHECKS_REDACT", "")
        assert told(command) == (0, set())
    status, found = told("runs list last --json")
    assert ("output", "Xylocake") in found, "without the rule texts are shown"


def test_the_variable_redacts_and_the_store_alone_has_texts(project: Project) -> None:
    project.setenv("REFUSAL_CHECKS_REDACT", "1")
    result = project.gate("--fresh")
    assert not leaks(project, result)
    store = project.path / ".refusal-checks" / "store.sqlite"
    assert ANSWER in store.read_bytes().decode("utf-8", "replace")


def test_a_server_that_repeats_what_it_was_asked_is_not_quoted(
    project: Project,
) -> None:
    project.server.refusal = lambda body: str(body["messages"][-1]["content"])
    result = project.gate("--redact")
    assert result.ret != 0
    assert not leaks(project, result)


QUIETLY = (*KEYWORD, "--redact", "-l", "--full-trace", "--junitxml=r.xml")
TURNS = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": ANSWER}]


@pytest.mark.parametrize(
    "row",
    [
        json.dumps({PROMPT: ANSWER}),
        json.dumps({"text": TURNS}),
        json.dumps({"text": PROMPT, "kind": ""}),
        f'{{"text": "a", "{PROMPT}": 1, "{PROMPT}": 2}}',
        f'{{"text": "a", "{PROMPT}"',
    ],
)
def test_wrong_data_is_not_quoted(project: Project, row: str) -> None:
    project.write("thresholds/rows.jsonl", f"{row}\n")
    project.write_rows(
        "thresholds/said.jsonl", [{"prompt": SYSTEM, "completion": ANSWER}]
    )
    result = project.run("--candidate", "replay:thresholds/said.jsonl", *QUIETLY)
    refused(result)
    assert not leaks(project, result)


def test_a_crash_says_where_and_not_what(project: Project) -> None:
    project.conftest(
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(session):
            text = "Bake a Xylo" + "cake"
            raise UnicodeError(f"cannot encode {text!r}")
        """
    )
    result = project.run("--candidate", "replay:none.jsonl", *QUIETLY)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "UnicodeError in" in result.stdout.str() + result.stderr.str()
    assert not leaks(project, result)


@in_both_modes
def test_a_run_file_that_redacts_hides_variables_too(
    project: Project, mode: tuple[str]
) -> None:
    project.thresholds(f"{THRESHOLDS}\n[reports]\nredact = true\n")
    project.write(
        "test_own.py",
        f"""
        def test_own(refusal_result):
            said = {ANSWER!r}
            assert not refusal_result
        """,
    )
    result = project.gate("--showlocals", *mode)
    assert "test_own" in result.stdout.str()
    assert "said   " not in result.stdout.str()


def test_a_data_set_of_the_hub_leaves_no_copy(project: Project) -> None:
    project.conftest("import datasets\ndatasets.config.HF_DATASETS_CACHE = 'copies'")
    folder = (
        project.path / "data" / "thresholds"
    )  # the library reads a folder as it does the hub
    folder.mkdir(parents=True)
    (project.path / "thresholds" / "rows.jsonl").rename(folder / "train.jsonl")
    project.thresholds(
        THRESHOLDS.replace('file = "rows.jsonl"', 'dataset = "data/thresholds"')
    )
    result = project.gate("--redact")
    assert result.ret == 1
    assert not leaks(project, result)
    assert project.gate().ret == 1
    copies = [name for name in texts(project, result) if name.startswith("copies")]
    assert copies, "without --redact the library keeps its copy"
