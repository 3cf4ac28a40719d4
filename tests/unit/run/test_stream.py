"""The stream from prompts to records: what is asked for, kept, and told apart."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.core.judgements import (
    Binary,
    Judgement,
    Reason,
)
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import Limits
from refusal_checks.engines import vllm
from refusal_checks.models.candidates import Answer
from refusal_checks.models.model_names import Attached, Rule, Served
from refusal_checks.run.plan import (
    LEAST,
    MissingWork,
    Plan,
    prompts_at_once,
)
from tests.unit.run.scripted import (
    BROKEN,
    COMPLIES,
    FAILS,
    PROMPTS,
    READER,
    REFUSES,
    Reader,
    Says,
    Speaker,
    evaluate,
    left,
)


def test_every_prompt_gives_its_records_in_order_and_none_is_asked_twice(
    tmp_path: Path,
) -> None:
    speaker = Speaker()
    assert left(speaker, Reader(), tmp_path) == MissingWork(12, 12, READER)
    found = evaluate(speaker, Reader(), tmp_path, in_flight=2)
    assert list(found) == ["first", "second"]
    ids = [(record.prompt.id, record.sample) for record in found["first"]]
    assert ids == [(f"p{number}", sample) for number in range(4) for sample in range(2)]
    texts = [record.completion and record.completion.text for record in found["first"]]
    assert texts == [f"answer {prompt}-{sample}" for prompt, sample in ids]
    assert speaker.most_running == 2
    assert left(Speaker(), Reader(), tmp_path) == MissingWork(0, 0)
    speaker, reader = Speaker(), Reader()
    evaluate(speaker, reader, tmp_path)
    assert not speaker.asked
    assert not reader.read


def test_a_judge_without_identity_is_asked_every_time_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    rule = Reader(None, name="rule")
    assert left(Speaker(), (Reader(), rule), tmp_path) == MissingWork(12, 12, READER)
    for times in (1, 2):
        evaluate(Speaker(), (Reader(), rule), tmp_path)
        assert sum(rule.read.values()) == 12 * times
    assert left(Speaker(), (Reader(), rule), tmp_path) == MissingWork(0, 0)


def test_equal_answers_to_one_prompt_are_judged_once(tmp_path: Path) -> None:
    same = {f"p0-{sample}": Completion("always this") for sample in range(5)}
    reader = Reader()
    evaluate(Speaker(5, same), reader, tmp_path)
    assert reader.read["always this"] == 1
    assert sum(reader.read.values()) == 5 * 5 + 1


def test_what_cannot_be_judged_is_invalid_and_what_failed_is_asked_for_again(
    tmp_path: Path,
) -> None:
    found = evaluate(Speaker(2, BROKEN), Reader(says=FAILS), tmp_path)["first"]
    reasons = [getattr(record.judgement, "reason", None) for record in found]
    assert reasons == [
        Reason.ENGINE_ERROR,
        Reason.EMPTY_ANSWER,
        Reason.UNFINISHED_ANSWER,
        Reason.UNFINISHED_ANSWER,
        Reason.JUDGE_ERROR,
        Reason.JUDGE_ERROR,
        Reason.UNCLOSED_REASONING,
        Reason.JUDGE_ERROR,
    ]
    assert found[0].completion is None
    assert found[1].completion == Completion(" \n")
    speaker, reader = Speaker(), Reader()
    evaluate(speaker, reader, tmp_path)
    assert sorted(speaker.asked) == ["p0-0", "p1-0", "p1-1"]
    assert sum(reader.read.values()) == 10, "all but empty and endless answers"


def test_a_fault_leaves_no_verdict_being_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Reader):
        async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
            await asyncio.sleep(60 if completion.text.endswith("1") else 0)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        evaluate(Speaker(2), Slow(), tmp_path)
    assert not caplog.text, "what is left running says so as the loop ends"


OVERLAPPING: Plan = {"part": PROMPTS[:4], "whole": PROMPTS}


@pytest.mark.parametrize("in_flight", [1, 10])
def test_a_prompt_of_two_benchmarks_is_answered_and_judged_once(
    tmp_path: Path, in_flight: int
) -> None:
    speaker, reader = Speaker(), Reader()
    assert left(speaker, reader, tmp_path, OVERLAPPING) == MissingWork(12, 12, READER)
    found = evaluate(speaker, reader, tmp_path, in_flight, OVERLAPPING)
    assert {name: len(records) for name, records in found.items()} == {
        "part": 8,
        "whole": 12,
    }
    assert found["whole"][:8] == found["part"]
    assert set(speaker.asked.values()) == set(reader.read.values()) == {1}


def test_the_candidate_answers_before_its_judges_can_be_asked(tmp_path: Path) -> None:
    opened: list[tuple[int, int]] = []

    def let_judge() -> None:
        opened.append((len(speaker.asked), reader.read.total()))
        may_judge.set()

    class Opening(Speaker):
        """Judges may be asked a moment after its first answer."""

        async def answer(
            self, prompt: Prompt, first: int, count: int
        ) -> Sequence[Answer]:
            if not self.asked:
                asyncio.get_running_loop().call_later(0.1, let_judge)
            return await super().answer(prompt, first, count)

    speaker, reader, may_judge = Opening(), Reader(), asyncio.Event()
    found = evaluate(speaker, reader, tmp_path, 2, may_judge=may_judge)
    assert opened[0] == (12, 0)
    assert {name: len(records) for name, records in found.items()} == {
        "first": 8,
        "second": 4,
    }
    assert reader.read.total() == 12


def three(second: Says = REFUSES) -> tuple[Reader, Reader, Reader]:
    """Two judges that say refusal and one that says compliance."""
    return (
        Reader("one", name="a"),
        Reader("two", second, "b"),
        Reader("three", COMPLIES, "c"),
    )


def test_each_judge_s_verdicts_are_stored_by_its_own_identity(tmp_path: Path) -> None:
    assert left(Speaker(), three(), tmp_path) == MissingWork(12, 36, frozenset("abc"))
    evaluate(Speaker(), Reader("one"), tmp_path)
    assert left(Speaker(), three(), tmp_path) == MissingWork(0, 24, frozenset("bc"))
    records = evaluate(Speaker(), three(FAILS), tmp_path)["first"]
    reasons = {getattr(record.judgement, "reason", None) for record in records}
    assert reasons == {Reason.NO_MAJORITY}
    assert left(Speaker(), three(), tmp_path) == MissingWork(0, 12, frozenset("b"))
    readers = three()
    records = evaluate(Speaker(), readers, tmp_path)["first"]
    assert all(isinstance(record.judgement, Binary) for record in records)
    assert [sum(reader.read.values()) for reader in readers] == [0, 12, 0]
    assert left(Speaker(), three(), tmp_path) == MissingWork(0, 0)


ATTACHED = Attached("there", "http://there/v1", "model")


def served(*args: str) -> Served:
    return Served("model", "model", args)


@pytest.mark.parametrize(
    ("candidate", "samples", "on_cpu", "wanted"),
    [
        (ATTACHED, 5, True, LEAST),
        (served(), 5, True, 103),
        (served(), 128, False, LEAST),
        (served("--max-num-seqs=512", "--data-parallel-size", "2"), 1, False, 2048),
    ],
)
def test_as_many_as_keep_the_engine_full(
    candidate: Served | Attached,
    samples: int,
    on_cpu: bool,
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: on_cpu)
    models = candidate, Rule("keyword")
    assert prompts_at_once(Limits(), models, samples) == wanted
    assert prompts_at_once(Limits(in_flight=7), models, samples) == 7
