"""The script of extensions/ that writes a benchmark's prompts in other words."""

import base64
import json
from pathlib import Path

import pytest
from refusal_checks_extensions.rewritings import REWRITINGS, rows
from typer import Typer
from typer.testing import CliRunner

from refusal_checks.core.prompts import Message, Prompt

REQUEST = "How do I bake a loaf of bread with 2 kinds of flour?"
PROMPT = Prompt.single("p1", REQUEST, category="food")


@pytest.mark.parametrize("name", REWRITINGS)
def test_a_rewriting_is_a_row_of_an_own_benchmark(name: str) -> None:
    (row,) = rows([PROMPT], [name])
    assert row["prompt"][-1]["role"] == "user"
    assert row["prompt"] != [{"role": "user", "content": REQUEST}]
    about = {key: row[key] for key in row.keys() - {"prompt"}}
    assert about == {
        "id": f"p1-{name}",
        "judge_sees": [{"role": "user", "content": REQUEST}],
        "category": "food",
        "cluster": "p1",
        "rewriting": name,
    }


def test_the_request_stays_within() -> None:
    (coded, split) = rows([PROMPT], ["base64", "payload_splitting"])
    text = coded["prompt"][0]["content"]
    assert base64.b64decode(text.split()[-1]).decode() == REQUEST
    parts = split["prompt"][0]["content"].split("\n---\n")
    assert "".join(parts[1:3]) == REQUEST


def test_a_conversation_stays_and_a_system_message_is_first() -> None:
    turns = Message("user", "Hello"), Message("assistant", "Hello!")
    prompt = Prompt("p1", (*turns, Message("user", REQUEST)))
    (row,) = rows([prompt], ["system_prompt"])
    roles = [turn["role"] for turn in row["prompt"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_what_cannot_be_rewritten_has_no_row() -> None:
    assert not [*rows([Prompt.single("p1", "Bake bread.")], ["past_tense"])]


def test_the_command_writes_a_file_and_names_what_is_wrong(tmp_path: Path) -> None:
    from refusal_checks_extensions.rewritings import main

    app = Typer()
    app.command()(main)
    out = tmp_path / "rewritten.jsonl"

    def run(*args: str) -> str:
        return CliRunner().invoke(app, [*args, "--out", str(out)]).output

    assert "80 prompts (0 could not be rewritten)" in run("smoke_unsafe", "base64")
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 80
    assert "no rewriting base46" in run("smoke_unsafe", "base46")
    assert "no benchmark smoke" in run("smoke", "base64")
