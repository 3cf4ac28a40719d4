"""Work that several want is done once; what failed is done again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from refusal_checks.run.once import Once


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
    once = Once[int]()
    return await asyncio.gather(
        *(once.get("key", work) for _ in range(times)), return_exceptions=True
    )


def test_all_have_the_result_of_one() -> None:
    work = Work()
    assert asyncio.run(wanted(work)) == [1, 1, 1]
    assert work.done == 1


def test_other_work_is_its_own() -> None:
    async def both() -> list[int]:
        once, work = Once[int](), Work()
        return [*await asyncio.gather(once.get("one", work), once.get("other", work))]

    assert asyncio.run(both()) == [1, 2]


def test_a_fault_is_that_of_who_did_the_work_and_the_next_does_it_again() -> None:
    work = Work(fails=1)
    found = asyncio.run(wanted(work))
    assert [str(each) for each in found] == ["fault 1", "2", "2"]
    assert work.done == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_who_stops_waiting_leaves_the_others_their_result(gone: int) -> None:
    async def run() -> list[int]:
        once, work = Once[int](), Work()
        tasks = [asyncio.create_task(once.get("key", work)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks.pop(gone).cancel()
        return await asyncio.gather(*tasks)

    first, second = asyncio.run(run())
    assert first == second
