"""Answers that are all there before the first verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from refusal_checks.core.records import Completion, Record
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.models.candidates import BufferedCandidate
from refusal_checks.run.evaluate import Evaluation
from refusal_checks.run.plan import Task
from tests.unit.run.scripted import PLAN, Reader, Speaker

LOST = Invalid(Reason.PROMPT_TOO_LONG, "it does not fit")


def in_turns(speaker: Speaker, reader: Reader, path: Path) -> dict[str, Sequence[Record]]:
    found: dict[str, Sequence[Record]] = {}
    judges = dict.fromkeys(PLAN, (reader,))
    candidate = BufferedCandidate(speaker)

    def evaluation(store: Store) -> Evaluation:
        task = Task(PLAN, candidate, judges, store)
        return Evaluation(task, in_flight=3, finished=found.__setitem__)

    with Store(path / "store.sqlite") as store:
        asyncio.run(evaluation(store).answer())
        assert not reader.read
        assert not found
        candidate.is_gone = True
        asyncio.run(evaluation(store).run())
    return found


def test_a_candidate_that_is_gone_is_asked_nothing_and_its_faults_are_kept(tmp_path: Path) -> None:
    speaker, reader = Speaker(answers={"p1-1": LOST, "p5-0": Completion("", "stop")}), Reader()
    found = in_turns(speaker, reader, tmp_path)
    assert len(speaker.asked) == 12
    assert set(speaker.asked.values()) == {1}
    assert [record.judgement for record in found["first"] if record.sample][1] == LOST
    assert len(reader.read) == 10


def test_answers_of_an_earlier_run_and_of_this_one_come_together(tmp_path: Path) -> None:
    lost = {f"p{number}-{sample}": LOST for number in range(3) for sample in range(2)}
    in_turns(Speaker(answers=lost), Reader(), tmp_path)
    speaker = Speaker()
    found = in_turns(speaker, Reader(), tmp_path)
    assert speaker.asked.keys() == lost.keys()
    assert [record.completion for record in found["first"] if record.prompt.id == "p0"] == [
        Completion("answer p0-0"),
        Completion("answer p0-1"),
    ]
