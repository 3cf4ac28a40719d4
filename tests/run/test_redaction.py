"""No text of a prompt, answer or rationale in any file or line of a redacted run."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import datasets
import pytest
from aiohttp import web

from refusal_checks.judges.prompt_metadata import EXAMPLE
from refusal_checks.reports.formats import OWN
from tests.support.fake_server import Body, FakeServer, Fault
from tests.support.project import KEYWORD, REUSE, Project, judged, saying

PROMPT, SYSTEM, ANSWER = "Bake a Xylocake", "Be a Quillfish", "Take nine Zweibacks"
RATIONALE, REASON, ERROR = (
    "It hands out Vermicelli",
    "Ended by Kumquat",
    "Crash on Yarrow",
)
NAME = "You asked me about Tamarillo"
TEXTS = (PROMPT, SYSTEM, ANSWER, RATIONALE, REASON, ERROR, NAME)
SECRETS = tuple(text.split()[-1] for text in TEXTS)

GATES = """
[mine]
file = "rows.jsonl"
expect = "refuse"
prompt = "text"
category = "kind"
rejection_rate = { min = 0.99 }
"""


def telling(body: Body) -> list[str]:
    """Answers with a secret; judges with one, unreadably at times, and not twice the same."""
    text = body["messages"][0]["content"] + body["messages"][-1]["content"]
    if "response_format" not in body:
        return [f"{ANSWER} {text[-9:]}"] * body["n"]
    if "number 2" in text:
        return [f"no verdict: {RATIONALE}"]
    return judged("other:" in text, RATIONALE)


class Telling(FakeServer):
    """Says a secret as the reason for an end, as its model's name, and in its errors."""

    def _choice(self, index: int, said: str | Body) -> Body:
        choice = super()._choice(index, said)
        if "number 3" in str(said):
            choice["finish_reason"] = REASON
        return choice

    def _answered(self, body: Body, choices: Sequence[Body]) -> web.Response:
        answer = json.loads(super()._answered(body, choices).text or "")
        return web.json_response({**answer, "model": NAME})

    async def _fault(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        return web.json_response({"error": {"message": ERROR}}, status=400)


def furnish(project: Project) -> None:
    """A benchmark whose prompts are secrets, and reports for GitHub."""
    rows = [
        {"id": f"p{i}", "text": f"{PROMPT} number {i}", "kind": "food"}
        for i in range(6)
    ]
    project.write_rows("thresholds/rows.jsonl", rows)
    project.thresholds(GATES)
    project.setenv("GITHUB_STEP_SUMMARY", str(project.path / "step.md"))


@pytest.fixture
def secret(project: Project) -> Iterator[Project]:
    furnish(project)
    with Telling(telling) as project.server:
        project.server.failing = {f"{PROMPT} number 4": 400}
        yield project


def files_of(project: Project, *kept: str) -> dict[str, str]:
    """What lies in a project, by path, but data, stores, earlier runs and what is ``kept``."""
    earlier = project.runs[:-1]
    texts = {}
    for path in project.path.rglob("*"):
        name = str(path.relative_to(project.path))
        is_data = path.parent.name == "thresholds" or ".sqlite" in path.name
        is_earlier = any(path.is_relative_to(run) for run in earlier)
        if path.is_file() and not (is_data or is_earlier or name.startswith(kept)):
            texts[name] = path.read_bytes().decode("utf-8", "replace")
    return texts


def leaks(project: Project, said: str, *kept: str) -> set[tuple[str, str]]:
    """Which secrets are in which file, or in what was said."""
    texts = {"output": said, **files_of(project, *kept)}
    return {
        (name, word) for name, text in texts.items() for word in SECRETS if word in text
    }


def test_a_run_that_shows_all_that_can_be_shown_tells_nothing_but_without_redaction_all(
    secret: Project,
) -> None:
    secret.server.answer = saying("I cannot help")
    first = secret.evaluate()
    (secret.path / "step.md").unlink()
    secret.server.answer = telling
    judges = ("one", "two", "other")
    for judge in judges:
        template = f"{judge}: {{{{ request }}}} / {{{{ answer }}}} / {{{{ marker }}}}"
        secret.write(f"{judge}.md", f"{EXAMPLE}\n===== user =====\n{template}")
    reports: dict[str, Any] = {f"reports_{name}": f"{name}.html" for name in OWN}
    everything = {
        "baseline_path": first.result.folder,
        "baseline_allow_incomparable": True,
        "sampling_seed": 9,
        "sampling_system_prompt": SYSTEM,
        "judge_model": [secret.model] * 3,
        "judge_prompt": [f"{judge}.md" for judge in judges],
        **reports,
    }

    found = secret.evaluate(reports_redact=True, **everything)
    found.result.write_junit("gates.xml")
    assert found.answer == "no"
    assert not leaks(secret, found.said)
    texts = files_of(secret)
    assert "[redacted: sha256" in texts["gates.xml"]
    assert "[redacted: sha256" in found.said
    for part in ("p0", "compliance"):
        assert part in found.said

    shown = secret.evaluate(**everything)
    assert {word for _, word in leaks(secret, shown.said)} == set(SECRETS)
    assert "answer: [redacted" not in shown.said


READING = """
runs list; runs list last -v
report html last; report markdown last
compare FIRST last
baseline accept last accepted
sample-for-labels last --out labels.csv
"""
"""Every command that shows or writes something of a run."""

DOCTOR = "doctor --candidate MODEL --judge MODEL"


def call_each(project: Project, commands: str, *kept: str) -> None:
    """Call commands, of which none may tell a secret."""
    named = {"FIRST": str(project.runs[0]), "MODEL": project.model}
    lines = re.split(r"\s*[;\n]\s*", commands.strip())
    for line in filter(None, lines):
        words = [named.get(word, word) for word in line.split()]
        code, said = project.call(*words)
        # A sheet for people is of no use without texts.
        assert code == (4 if words[0] == "sample-for-labels" else 0), (line, said)
        assert not leaks(project, said, *kept), line


def test_no_command_tells_anything_of_redacted_runs_or_of_a_damaged_store(
    secret: Project,
) -> None:
    for seed in (1, 2):
        secret.evaluate(reports_redact=True, sampling_seed=seed)
    secret.write("vllm.py", "__version__ = '0'")  # doctor imports it, in no time
    call_each(secret, f"{READING};{DOCTOR}")
    with closing(sqlite3.connect(secret.store)) as store, store:
        store.execute(
            "UPDATE judgements SET value = CAST(X'ff' || value AS TEXT) WHERE rowid % 2"
        )
        store.execute(
            "UPDATE completions SET value = replace(value, '{', '[') WHERE rowid % 2"
        )
    found = secret.evaluate(reports_redact=True, sampling_seed=2, **REUSE)
    found.says("of its rows were damaged or edited by hand")
    assert not leaks(secret, found.said)


def test_one_variable_hides_the_texts_of_a_run_from_every_command(
    secret: Project,
) -> None:
    for seed in (1, 2):
        secret.evaluate(sampling_seed=seed, sampling_system_prompt=SYSTEM)
    kept = (".refusal-checks", "step.md")
    secret.setenv("REFUSAL_CHECKS_REDACT", "1")
    call_each(secret, f"{READING};runs list last --json", *kept)
    secret.setenv("REFUSAL_CHECKS_REDACT", "")
    call_each(
        secret,
        "runs list last --json --redact",
        *kept,
    )
    _, said = secret.call("runs", "list", "last", "--json")
    assert "Xylocake" in said, "without the rule texts are shown"


def test_the_variable_redacts_a_run_and_the_store_alone_has_texts(
    secret: Project,
) -> None:
    secret.setenv("REFUSAL_CHECKS_REDACT", "1")
    found = secret.evaluate(store_fresh=True)
    assert not leaks(secret, found.said)
    assert ANSWER in secret.store.read_bytes().decode("utf-8", "replace")


def test_a_server_that_repeats_what_it_was_asked_is_not_quoted(secret: Project) -> None:
    secret.server.refusal = lambda body: str(body["messages"][-1]["content"])
    found = secret.evaluate(reports_redact=True)
    assert not found.result.decision.may_ship
    assert not leaks(secret, found.said)


def test_a_data_set_of_the_hub_leaves_no_copy(secret: Project) -> None:
    secret.patch.setattr(datasets.config, "HF_DATASETS_CACHE", "copies")
    # The library reads a folder as it does the hub.
    (secret.path / "data").mkdir()
    (secret.path / "thresholds" / "rows.jsonl").rename("data/train.jsonl")
    secret.thresholds(GATES.replace('file = "rows.jsonl"', 'dataset = "./data"'))
    for redacts in (True, False):
        secret.evaluate(reports_redact=redacts)
        copied = any(name.startswith("copies") for name, _ in leaks(secret, ""))
        assert copied is not redacts


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
def test_wrong_data_is_not_quoted(secret: Project, row: str) -> None:
    secret.write("thresholds/rows.jsonl", f"{row}\n")
    said = [{"prompt": SYSTEM, "completion": ANSWER}]
    secret.write_rows("thresholds/said.jsonl", said)
    text = secret.refuses(
        candidate_model="replay:thresholds/said.jsonl", reports_redact=True, **KEYWORD
    )
    assert not leaks(secret, text)
