"""The phases of an engine's start, as vLLM's log tells them."""

from __future__ import annotations

import pytest

from tests.speed.log_phases import READY, phases

LOG = [
    (1.0, "Triton is installed, but doesn't include CPU backend. Disabling Triton."),
    (11.0, "(APIServer pid=1) INFO 11-22 14:23:08 [api_utils.py:286] non-default args: {}"),
    (12.0, "(APIServer pid=1) INFO 11-22 14:23:08 [model.py:2152] Using max model len 8192"),
    (19.0, "(EngineCore pid=2) INFO 11-22 14:23:42 [core.py:133] Initializing a V1 LLM engine"),
    (
        21.0,
        "(EngineCore pid=2) INFO 11-22 14:23:45 [cpu_model_runner.py:68] Starting to load model",
    ),
    (
        22.5,
        "(EngineCore pid=2) INFO 11-22 14:23:46 [loader.py:501] Loading weights took 0.45 seconds",
    ),
    (
        24.5,
        "(EngineCore pid=2) INFO 11-22 14:23:50 [core.py:402] init engine (profile, create kv "
        "cache, warmup model) took 1.73 s",
    ),
    (26.0, "(APIServer pid=1) INFO 11-22 [entry.py:140] Starting vLLM server on http://127.0.0.1"),
]


def test_each_phase_ends_with_its_line() -> None:
    found = phases(LOG, 26.5)
    assert list(found.values()) == [11.0, 10.0, 1.5, 2.0, 1.5, 0.5]
    assert list(found)[-1] == READY


@pytest.mark.parametrize("missing", range(len(LOG)))
def test_a_missing_line_counts_to_the_next_phase(missing: int) -> None:
    found = phases([line for number, line in enumerate(LOG) if number != missing], 26.5)
    assert sum(found.values()) == pytest.approx(26.5)
    assert all(seconds >= 0 for seconds in found.values())


def test_another_engine_has_one_phase() -> None:
    assert phases([(1.0, "ready")], 3.0) == {READY: 3.0}
