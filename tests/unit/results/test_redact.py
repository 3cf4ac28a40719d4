"""Values without texts: whatever the texts are, nothing of them is left."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import EndpointError, EngineDiedError, ModelError
from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
)
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.redaction import is_redacted
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.models.model_names import Served
from refusal_checks.results import redact
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.redact import Redaction
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.minimums import Check, JudgeCheck, Mistake
from tests.support.deciding import decide
from tests.support.report_runs import write_run
from tests.unit.gates.test_score_files import scores_of

SECRET = "Xq secret text ÄÖ"
GATE = Gate("bench", "rejection_rate", min=0.8, max_drop=0.05)


def record(judgement: Judgement, prompt_id: str = "p1", turns: int = 1) -> Record:
    """A record whose every text is the secret."""
    messages = tuple(Message("user", SECRET) for _ in range(turns))
    prompt = Prompt(
        *(prompt_id, messages, {"category": "fraud"}, SECRET, {"A": SECRET}),
        judge_sees=messages,
    )
    answer = Completion(SECRET, label=SECRET)
    return Record(
        prompt, 0, answer, judgement, (Vote("one", judgement), Vote("two", judgement))
    )


JUDGEMENTS: list[Judgement] = [
    Binary(Label.COMPLIANCE, None, SECRET),
    Graded(0, SECRET),
    Chosen("A", True, SECRET),
    Rated(0.5, 3.0),
    Invalid(Reason.UNPARSABLE_VERDICT, SECRET),
]


@pytest.mark.parametrize(
    "judgement", JUDGEMENTS, ids=lambda found: type(found).__name__
)
def test_nothing_of_a_record_s_texts_is_left(judgement: Judgement) -> None:
    before = record(judgement, turns=2)
    after = redact.redact_record(before)
    assert SECRET not in TypeAdapter(Record).dump_json(after).decode()
    assert (after.prompt.id, after.prompt.groups) == ("p1", {"category": "fraud"})
    assert [turn.role for turn in after.prompt.messages] == ["user", "user"]
    assert type(after.judgement) is type(judgement)
    assert redact.redact_record(after) == after


@pytest.mark.parametrize(
    ("said", "is_kept"), [(SECRET, False), ("gladly", False), ("length", True)]
)
def test_only_the_usual_words_for_the_end_of_an_answer_stay(
    said: str, is_kept: bool
) -> None:
    before = record(Invalid(Reason.UNFINISHED_ANSWER, f"finish reason {said}"))
    before = replace(before, completion=Completion("", said))
    text = TypeAdapter(Record).dump_json(redact.redact_record(before)).decode()
    assert text.count(said) == (4 if is_kept else 0)


def test_the_letter_of_the_right_option_stays() -> None:
    prompt = Prompt("p", (Message("user", SECRET),), {}, "A", {"A": SECRET})
    assert redact.redact_prompt(prompt).reference == "A"


def test_nothing_of_a_verdict_s_texts_is_left() -> None:
    before, after = (
        [record(Binary(label, None, SECRET), f"p{n}") for n in range(20)]
        for label in (Label.REFUSAL, Label.COMPLIANCE)
    )
    earlier = Earlier(
        scores_of(before), texts=lambda prompt, keys: dict.fromkeys(keys, SECRET)
    )
    verdict = decide(GATE, after, Rules(failing_prompts=3), earlier)
    assert verdict.comparison
    assert verdict.comparison.fell[0].answer_before == SECRET
    redacted = redact.redact_verdict(verdict)
    shown = TypeAdapter(Verdict).dump_json(redacted).decode()
    assert "characters]" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (EndpointError(f"http://h: HTTP 400: {SECRET}", 400), "HTTP 400"),
        (ValueError(SECRET), "ValueError"),
        (ExceptionGroup("several", [EndpointError(SECRET, 500)]), "HTTP 500"),
        (EngineDiedError("vLLM ended during the run"), "vLLM ended during the run"),
        (asyncio.CancelledError(), "stopped before it was complete"),
    ],
)
def test_a_run_that_broke_says_why_without_what_a_server_repeats(
    fault: BaseException, shown: str
) -> None:
    said = Redaction(True).reason(fault)
    assert shown in said
    assert SECRET not in said


def test_system_prompts_and_names_that_servers_give_are_redacted_in_a_summary() -> None:
    summary = RunSummary(
        Manifest(sampling={"system_prompt": SECRET, "samples": 5}),
        execution=Execution.model_validate(
            {"servers": {"candidate": {"http://h/v1#m": {"answers_as": SECRET}}}}
        ),
    )
    shown = Redaction(True).summary(summary)
    assert shown.manifest.redacted is True
    assert shown.manifest.sampling["samples"] == 5
    assert is_redacted(shown.manifest.sampling["system_prompt"])
    assert SECRET not in str(shown)
    assert Redaction(False).summary(summary) is summary


def test_engines_that_log_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="--redact"):
        Redaction(True).require_silent([Served("m", "m", ("--enable-log-requests",))])
    lora = Served("m", "m", ("--enable-lora",))
    Redaction(True).require_silent([lora])
    monkeypatch.setenv("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "True")
    with pytest.raises(ModelError, match="VLLM_DEBUG_LOG_API_SERVER_RESPONSE"):
        Redaction(True).require_silent([lora])


@pytest.mark.parametrize(("option", "variable"), [("--redact", ""), ("", "1")])
def test_a_report_of_a_run_with_texts_can_be_without_them(
    tmp_path: Path,
    option: str,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(redact.VARIABLE, variable)
    complied = Binary(Label.COMPLIANCE, None, SECRET)
    mistake = Mistake("canary-1", "plain", "refusal", "compliance", SECRET)
    check = Check("specificity", None, 0.8, False, (mistake,), why=SECRET)
    write_run(
        Path("run"),
        {"bench": [record(complied, f"p{n}") for n in range(9)]},
        [Gate("bench", "rejection_rate", min=0.8)],
        manifest={"candidate": "m", "sampling": {"system_prompt": SECRET}},
        judge=JudgeCheck("j", "0", (check,), 1, 0.1),
        failure=f"HTTP 400: {SECRET}",
        errors={"other-accuracy": SECRET},
    )
    command = f"report html run --out page.html {option}".split()
    assert CliRunner().invoke(application(), command).exit_code == 0
    written = Path("page.html").read_text()
    assert "Xq secret" not in written
    assert "p8" in written
