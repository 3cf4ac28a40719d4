"""Following the log of an engine that starts."""

from __future__ import annotations

import time
from pathlib import Path

from tests.speed.circumstances import cpu
from tests.speed.start import followed


def test_lines_come_with_the_time_at_which_they_were_written(tmp_path: Path) -> None:
    log = tmp_path / "engine-0.log"
    with followed(log) as lines:
        time.sleep(0.05)
        log.write_text("one\n")
        time.sleep(0.2)
        with log.open("a") as file:
            file.write("two\n")
        time.sleep(0.2)
    assert [line for _, line in lines] == ["one\n", "two\n"]
    assert 0.04 < lines[0][0] < lines[1][0]


def test_a_processor_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Fast  (R) Chip\n")
    assert cpu(tmp_path / "cpuinfo") == "Fast (R) Chip"
    assert cpu(tmp_path / "missing")
