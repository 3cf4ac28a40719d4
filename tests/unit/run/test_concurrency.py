"""How many prompts are in flight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.core.settings import Limits, Sampling
from refusal_checks.engines.kinds import vllm
from refusal_checks.models.spec import Attached, Rule, Served
from refusal_checks.run.concurrency import LEAST, prompts_at_once
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.options.models import NamedJudge

ATTACHED = Attached("there", "http://there/v1", "model")
JUDGE = NamedJudge("keyword", Rule("keyword"))


def options(candidate: Served | Attached, samples: int, **limits: int) -> Options:
    sampling, store = Sampling(samples=samples), Path("store.sqlite")
    return Options(candidate, (JUDGE,), store, sampling=sampling, limits=Limits(**limits))


def served(*args: str) -> Served:
    return Served("model", "model", args)


@pytest.mark.parametrize(
    ("candidate", "samples", "on_cpu", "wanted"),
    [
        (ATTACHED, 5, True, LEAST),
        (served(), 5, True, 103),
        (served(), 5, False, 410),
        (served(), 128, False, LEAST),
        (served("--max-num-seqs", "512"), 1, True, 1024),
        (served("--max-num-seqs=512", "--data-parallel-size", "2"), 1, False, 2048),
        (served("--max_num_seqs", "8"), 5, False, LEAST),
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
    assert prompts_at_once(options(candidate, samples)) == wanted
    assert prompts_at_once(options(candidate, samples, in_flight=7)) == 7
    early = replace(options(candidate, samples), stop_early=True)
    assert prompts_at_once(early) == LEAST
