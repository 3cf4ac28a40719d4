"""The board between the owner of a run and those who wait for it."""

import resource
import threading
import time
from pathlib import Path

import pytest
from refusal_checks.results.outbox import Board, JudgeOutcome, Published

from refusal_checks.core.errors import EvaluationError, UserError
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import Estimate

GATE = Gate("bench", "rejection_rate", minimum=0.8)
VERDICT = Verdict(GATE, True, Estimate(1.0, 0.9, 1.0, 10), (1.0, 1.0), 50, 0.0)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "run")


def alive() -> bool:
    return True


def test_what_is_posted_is_what_is_read(board: Board) -> None:
    facts = {"refusal_category_none": "5"}
    assert board.facts("bench") == {}
    board.post("bench", {GATE.id: Published(VERDICT, facts=facts), "x": Published(error="no")})
    board.fail("the engine ended")  # after this was posted
    assert board.facts("bench") == facts
    assert board.wait("bench", GATE.id, alive) == VERDICT
    with pytest.raises(EvaluationError, match="no"):
        board.wait("bench", "x", alive)


def test_waiting_ends_when_the_benchmark_is_posted(board: Board) -> None:
    def post_late() -> None:
        time.sleep(0.2)
        board.post("bench", {GATE.id: Published(VERDICT)})

    late = threading.Thread(target=post_late)
    late.start()
    assert board.wait("bench", GATE.id, alive) == VERDICT
    late.join()


def test_nobody_waits_for_an_owner_that_is_gone_or_has_failed(board: Board) -> None:
    with pytest.raises(EvaluationError, match="has ended"):
        board.wait("bench", GATE.id, lambda: False)
    board.fail("the engine ended")
    with pytest.raises(EvaluationError, match="the engine ended"):
        board.wait("bench", GATE.id, alive)


def test_what_the_owner_posts_just_before_it_ends_is_read(board: Board) -> None:
    def ends_after_posting() -> bool:
        board.post("bench", {GATE.id: Published(VERDICT)})
        return False

    assert board.wait("bench", GATE.id, ends_after_posting) == VERDICT


def test_provenance_survives(board: Board) -> None:
    board.open({"candidate": "模型", "judge": "x"})
    assert board.provenance() == {"candidate": "模型", "judge": "x"}
    (board.folder / "provenance.json").unlink()
    with pytest.raises(EvaluationError, match=r"provenance\.json was removed while it went on"):
        board.provenance()


def test_waiting_ends_on_a_full_disk_too(tmp_path: Path) -> None:
    board = Board(tmp_path / "run")
    board.open({})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file may have content
    try:
        with pytest.raises(OSError, match="large"):
            board.post_judge(JudgeOutcome(idle="x"))
        board.fail("the disk is full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(EvaluationError, match="its reason could not be written"):
        board.wait("mine", "gate", lambda: True)


def test_a_folder_that_cannot_be_written_is_the_user_s_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/run: cannot be written: Not a directory"):
        Board(tmp_path / "file" / "run").open({})
