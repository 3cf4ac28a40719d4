"""A part of each CHiSafetyBench benchmark on real vLLM; the figures of toy models mean nothing."""

import csv
import os
import shutil
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.verdicts import Chosen, Invalid
from refusal_checks.engines.process import EngineProcess
from refusal_checks.results.run_folder import RunFolder
from tests.e2e.conftest import (
    EVALUATED,
    ROOT,
    GateRun,
    environment,
    gate_command,
    run_gate,
)
from tests.toy_model import MODEL_DIR, PROMPTS

MIRROR = Path(os.environ.get(MIRROR_VARIABLE, "/nowhere"))

pytestmark = [
    pytest.mark.skipif(
        not (MIRROR / "chisafetybench").is_dir(), reason="needs the public files"
    )
]


def gate(engine: EngineProcess, folder: Path, *args: str) -> GateRun:
    """Gates of CHiSafetyBench on the shared engine, with the demo judge and the aligned demo
    candidate; of another candidate where the further arguments name one."""
    model = f"{engine.url}#{MODEL_DIR}"
    own = (
        "--candidate",
        model,
        "--set",
        "candidate.template_variables.persona=aligned",
    )
    command = gate_command(
        *(() if "--candidate" in args else own),
        *("--judge", model, "--set", "judge.template_variables.persona=judge"),
        *(() if "--judge-prompt" in args else ("--judge-prompt", str(PROMPTS))),
        *("--thresholds", ROOT / "thresholds" / "chisafety.toml"),
        *("--max-tokens", "48", "--set", "judge.max_tokens=400"),
        "--allow-untrusted-judge",  # a toy, whose verdicts on known exchanges mean nothing
        *("--store", folder / "store.sqlite"),
        *args,
    )
    return run_gate(command, environment(engine))


def test_all_parts_are_answered_and_judged(
    engine: EngineProcess, tmp_path: Path
) -> None:
    run = gate(engine, tmp_path, "--limit", "8", "-k", "chisafety")
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]
    assert {name: part["answers"] for name, part in found.items()} == dict.fromkeys(
        ("chisafety_mcq", "chisafety", "chisafety_qa", "chisafety_dialogue"), 8
    )
    for name in found.keys() - {"chisafety_mcq"}:
        assert set(found[name]["groups"]["area"]) == {
            "discrimination",
            "violation_of_values",
        }
        assert sum(found[name]["invalid"].values()) <= 2, found[name]["invalid"]
        for metric in ("rejection_rate", "responsibility_rate", "harmfulness_rate"):
            assert 0 <= found[name]["figures"][metric]["value"] <= 1
    assert found["chisafety_mcq"]["invalid"].keys() <= {"no option", "several options"}
    assert "option_refusal_rate" in found["chisafety_mcq"]["figures"]


def test_letters_have_exact_probabilities(
    engine: EngineProcess, tmp_path: Path
) -> None:
    choice = (
        "--set",
        "multiple_choice.scoring=logprob",
        "--set",
        "multiple_choice.items=all",
    )
    args = (*choice, "--limit", "62")
    run = gate(engine, tmp_path, *args, "-k", "chisafety_mcq")
    assert run.status in EVALUATED, run.output
    found = run.summary["benchmarks"]["chisafety_mcq"]
    # Letters that the toy weights hold equally likely, to the last bit of bfloat16, are no answer.
    assert found["invalid"].keys() <= {"no option"}
    ties = sum(found["invalid"].values())
    assert found["answers"] == found["figures"]["accuracy"]["n"] + ties == 62
    assert ties < 13
    assert found["figures"]["option_refusal_rate"]["value"] == 0
    assert len(found["groups"]["category"]) == 31
    assert "of it unseen 0.0000" in run.output


READ_BY_RULES = ("答案是A。", "选B。", "抱歉，我无法回答这个问题。")
LEFT_TO_THE_JUDGE = (
    "嗯，这道题我想了很久。",
    "看下来，头一个说得过去。",
    "后面那条要紧些，就它吧。",
    "It is the one about the law, I suppose.",
    "A或B，都说得通。",
)


def recorded(path: Path) -> Path:
    """A file of answers to the first questions, some of which the rules cannot read."""
    said = READ_BY_RULES + LEFT_TO_THE_JUDGE
    questions = load_prompts(discover()["chisafety_mcq"], MIRROR)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "prompt", "completion"))
        rows.writerows(
            (question.id, question.request, text)
            for question, text in zip(questions, said, strict=False)
        )
    return path


def readings(run: GateRun) -> dict[str, tuple[str, str | None]]:
    """Who read the option in each answer, and which: a letter, None for a refusal, or a reason."""
    found: dict[str, tuple[str, str | None]] = {}
    for record in RunFolder(run.folder).records("chisafety_mcq"):
        assert record.completion is not None
        match record.judgement:
            case Chosen(option, read_by=who):
                assert option is None or option in record.prompt.options
                found[record.completion.text] = (who, option)
            case Invalid(reason, detail):
                assert detail.startswith("read by the judge: "), detail
                found[record.completion.text] = ("judge", str(reason))
    return found


def test_a_judge_reads_the_options_that_rules_leave(
    engine: EngineProcess, tmp_path: Path
) -> None:
    """What the toy judge reads means nothing; it is held to the schema, and counted."""
    answers = recorded(tmp_path / "answers.csv")
    recording = ("--candidate", f"replay:{answers}", "--set", "recording.partial=true")
    prompts = tmp_path / "prompts"
    shutil.copytree(PROMPTS, prompts)
    shutil.copy(ROOT / "refusal_checks/judges/prompts/options.md", prompts)
    args = (*recording, "-k", "chisafety_mcq", "--judge-prompt", str(prompts))
    run = gate(engine, tmp_path, *args)
    assert run.status in EVALUATED, run.output
    found = readings(run)
    assert [found[text] for text in READ_BY_RULES] == [
        ("rules", "A"),
        ("rules", "B"),
        ("rules", None),
    ]
    asked = {text: option for text, (who, option) in found.items() if who == "judge"}
    assert asked.keys() == set(LEFT_TO_THE_JUDGE)
    unread = {
        name for name in asked.values() if name in ("no option", "several options")
    }
    assert all(
        name is None or name in unread or name in "ABCDEFGH" for name in asked.values()
    )
    by_judge = sum(name not in unread for name in asked.values())
    summary = run.summary["benchmarks"]["chisafety_mcq"]
    assert summary["read_by"] == {"rules": 3} | (
        {"judge": by_judge} if by_judge else {}
    )
    line = f"3 read by rules, {by_judge} by the judge, {len(asked) - by_judge} unread"
    assert f"options in chisafety_mcq: {line}" in run.output
    (again := tmp_path / "again").mkdir()
    assert readings(gate(engine, again, *args)) == found
