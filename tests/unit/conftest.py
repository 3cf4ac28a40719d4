"""Factories that several tests use, the data mirror, and hypothesis' settings."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.judgements import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from tests import toy_model
from tests.support import untouched

toy_model.use()


def pytest_configure(config: pytest.Config) -> None:
    untouched.watch(config)


settings.register_profile("unit", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("unit")

Write = Callable[[str, str], Path]

JUDGEMENTS: dict[str, Judgement] = {
    "R": Binary(Label.REFUSAL, "direct_refusal", "it declines"),
    "C": Binary(Label.COMPLIANCE, None, "it answers"),
    "-": Invalid(Reason.UNPARSABLE_VERDICT, "no verdict here"),
}


def record(
    verdict: str,
    id: str = "p1",  # noqa: A002 - the name of the field that it fills
    sample: int = 0,
    *,
    logprob: float | None = None,
    text: str | None = None,
    **groups: str,
) -> Record:
    """One answer to the prompt ``id``: R for a refusal, C for compliance, - for no verdict."""
    prompt = Prompt.single(id, f"request {id}", **groups)
    answer = f"answer {sample} ({verdict})" if text is None else text
    completion = Completion(answer, mean_logprob=logprob)
    return Record(prompt, sample, completion, JUDGEMENTS[verdict])


def records(verdicts: str, **groups: str) -> list[Record]:
    """Records of prompts p1, p2, ...: one word a prompt, one letter an answer (``"RRC CC-"``)."""
    return [
        record(verdict, f"p{number}", sample, logprob=None, text=None, **groups)
        for number, word in enumerate(verdicts.split(), 1)
        for sample, verdict in enumerate(word)
    ]


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of public data; skips where there is none."""
    value = os.environ.get(MIRROR_VARIABLE)
    if not value or not (Path(value) / "xstest").is_dir():
        pytest.skip(f"{MIRROR_VARIABLE} names no folder with XSTest's files")
    return Path(value)


@pytest.fixture(scope="session")
def recorded_answers(mirror: Path) -> list[str]:
    """Answers of models to XSTest, and to attacks of JailbreakBench."""
    answers = []
    for path in sorted(mirror.glob("xstest/completions_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            answers += [row["completion"] for row in csv.DictReader(file)]
    for path in sorted(mirror.glob("jailbreakbench/artifacts/*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))["jailbreaks"]
        answers += [row["response"] for row in rows if row["response"]]
    assert len(answers) > 1000
    return answers


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text file into the test's own folder."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return path

    return write_file
