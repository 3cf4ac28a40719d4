"""What comes at one time is stored at one time, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Binary, Label, Valid
from refusal_checks.run.saver import Saver

REFUSAL = Binary(Label.REFUSAL)


class Counted(Store):
    """A store that counts what it is given at one time."""

    written: list[int]

    def add_judgements(self, judgements: Mapping[str, Valid]) -> None:
        self.written.append(len(judgements))
        super().add_judgements(judgements)


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    made = Counted(tmp_path / "store.sqlite")
    made.written = []
    return made


def test_what_comes_during_one_turn_is_written_at_once(store: Counted) -> None:
    async def run() -> None:
        saver = Saver(store)
        await asyncio.gather(*(saver.judgement(f"k{i}", REFUSAL) for i in range(10)))
        await saver.judgement("late", REFUSAL)

    asyncio.run(run())
    assert store.written == [10, 1]


def test_who_stops_waiting_stops_nobody_else(store: Counted) -> None:
    async def run() -> None:
        saver = Saver(store)
        gone = asyncio.create_task(saver.judgement("gone", REFUSAL))
        here = asyncio.create_task(saver.completions({"here": Completion("x")}))
        await asyncio.sleep(0)  # both wait
        gone.cancel()
        await here
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(run())
    assert store.completions(["here"])


def test_a_fault_reaches_all_who_wait_and_the_next_is_stored(
    store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(values: object) -> None:
        raise OSError("disk full")

    async def run() -> list[BaseException | None]:
        saver = Saver(store)
        with monkeypatch.context() as patch:
            patch.setattr(store, "add_judgements", full)
            waiting = [saver.judgement(f"k{i}", REFUSAL) for i in range(3)]
            found = await asyncio.gather(*waiting, return_exceptions=True)
        await saver.judgement("k0", REFUSAL)
        return found

    assert {str(fault) for fault in asyncio.run(run())} == {"disk full"}
    assert set(store.judgements(["k0", "k1"])) == {"k0"}
