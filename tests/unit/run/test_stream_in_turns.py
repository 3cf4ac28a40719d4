"""Turns: the candidate answers everything and goes before a judge reads."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from refusal_checks.core.judgements import Invalid, Reason
from refusal_checks.core.records import Completion, Record
from refusal_checks.io.store import Store
from refusal_checks.models.candidates import Answer
from refusal_checks.run.concurrency import SingleFlight
from refusal_checks.run.plan import Task
from refusal_checks.run.stream import PromptStream
from tests.unit.run.scripted import PLAN, Reader, Speaker

LOST = Invalid(Reason.PROMPT_TOO_LONG, "it does not fit")


def in_turns(
    speaker: Speaker, reader: Reader, path: Path
) -> dict[str, Sequence[Record]]:
    found: dict[str, Sequence[Record]] = {}
    judges = dict.fromkeys(PLAN, (reader,))
    answered = SingleFlight[list[Answer]]()

    def evaluation(store: Store) -> PromptStream:
        task = Task(PLAN, speaker, judges, store)
        return PromptStream(
            task, in_flight=3, finished=found.__setitem__, answered=answered
        )

    with Store(path / "store.sqlite") as store:
        asyncio.run(evaluation(store).answer())
        assert not reader.read
        assert not found
        asked = speaker.asked.total()
        asyncio.run(evaluation(store).run())
    assert asked == speaker.asked.total(), "it is gone"
    return found


def test_a_candidate_that_is_gone_is_asked_nothing_and_its_faults_are_kept(
    tmp_path: Path,
) -> None:
    speaker, reader = (
        Speaker(answers={"p1-1": LOST, "p5-0": Completion("", "stop")}),
        Reader(),
    )
    found = in_turns(speaker, reader, tmp_path)
    assert len(speaker.asked) == 12
    assert set(speaker.asked.values()) == {1}
    assert [record.judgement for record in found["first"] if record.sample][1] == LOST
    assert len(reader.read) == 10
