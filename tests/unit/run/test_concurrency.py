"""Work that several want is done once, ends with the first fault, and is stored together."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import StoreError
from refusal_checks.core.judgements import Binary, Label, Valid
from refusal_checks.io.store import Store
from refusal_checks.run.concurrency import (
    CancellableWork,
    SingleFlight,
    WriteBatcher,
    gather_or_cancel,
)


class Work:
    """Work that fails as often as a test says."""

    def __init__(self, fails: int = 0) -> None:
        self.done = 0
        self._fails = fails

    async def __call__(self) -> int:
        self.done += 1
        number = self.done
        await asyncio.sleep(0.001)
        if number <= self._fails:
            raise OSError(f"fault {number}")
        return number


async def wanted(work: Work, times: int = 3) -> Sequence[int | BaseException]:
    once = SingleFlight[int]()
    return await asyncio.gather(
        *(once.get("key", work) for _ in range(times)), return_exceptions=True
    )


def test_all_have_the_result_of_one_and_other_work_is_its_own() -> None:
    async def both() -> list[int]:
        once, other = SingleFlight[int](), Work()
        return [*await asyncio.gather(once.get("one", other), once.get("other", other))]

    work = Work()
    assert asyncio.run(wanted(work)) == [1, 1, 1]
    assert work.done == 1
    assert asyncio.run(both()) == [1, 2]


def test_a_fault_is_that_of_who_did_the_work_and_the_next_does_it_again() -> None:
    work = Work(fails=1)
    found = asyncio.run(wanted(work))
    assert [str(each) for each in found] == ["fault 1", "2", "2"]
    assert work.done == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_who_stops_waiting_leaves_the_others_their_result(gone: int) -> None:
    async def run() -> list[int]:
        once, work = SingleFlight[int](), Work()
        tasks = [asyncio.create_task(once.get("key", work)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks.pop(gone).cancel()
        return await asyncio.gather(*tasks)

    first, second = asyncio.run(run())
    assert first == second


async def fails() -> None:
    raise ValueError("it fails")


async def fails_late() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise OSError("too late")


@pytest.mark.parametrize("other", [partial(asyncio.sleep, 60), fails_late])
def test_the_first_fault_ends_the_rest_and_comes_by_itself(other: Any) -> None:
    with pytest.raises(ValueError, match="it fails"):
        asyncio.run(gather_or_cancel(other(), fails()))


def test_a_cancellation_wins_over_a_fault_of_the_same_turn() -> None:
    async def caller() -> None:
        task = asyncio.current_task()
        assert task
        with suppress(ValueError):
            await gather_or_cancel(cancels(task), asyncio.sleep(60))
        pytest.fail("it goes on")

    async def cancels(task: asyncio.Task[None]) -> None:
        task.cancel()
        await fails()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(caller())


REFUSAL = Binary(Label.REFUSAL)


class Counted(Store):
    """A store that counts what it is given at one time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: list[int] = []

    def add_judgements(self, judgements: Mapping[str, Valid]) -> None:
        self.writes.append(len(judgements))
        super().add_judgements(judgements)


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "store.sqlite")


def test_what_comes_during_one_turn_is_written_at_once(store: Counted) -> None:
    async def run() -> None:
        saver = WriteBatcher(store)
        await asyncio.gather(
            *(saver.save(judgements={f"k{i}": REFUSAL}) for i in range(10))
        )
        await saver.save(judgements={"late": REFUSAL})

    asyncio.run(run())
    assert store.writes == [10, 1]


def test_a_fault_reaches_all_who_wait_and_the_next_is_stored(
    store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(values: object) -> None:
        raise StoreError("disk full")

    async def run() -> list[BaseException | None]:
        saver = WriteBatcher(store)
        with monkeypatch.context() as patch:
            patch.setattr(store, "add_judgements", full)
            waiting = [saver.save(judgements={f"k{i}": REFUSAL}) for i in range(3)]
            found = await asyncio.gather(*waiting, return_exceptions=True)
        await saver.save(judgements={"k0": REFUSAL})
        return found

    assert {str(fault) for fault in asyncio.run(run())} == {"disk full"}
    assert set(store.judgements(["k0", "k1"])) == {"k0"}


def test_work_that_was_cancelled_before_it_began_does_nothing() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("asked")

    cancellable = CancellableWork()
    cancellable.cancel()
    with pytest.raises(asyncio.CancelledError):
        cancellable.run(work)
    assert not done
