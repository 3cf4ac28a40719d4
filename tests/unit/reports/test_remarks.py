"""What matters most of a run, in its order."""

from refusal_checks.judges.trust.floors import Check, JudgeCheck
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.remarks import weighty
from refusal_checks.results.summary import RunSummary


def test_a_kind_that_the_judge_misreads_is_not_a_failed_check() -> None:
    half = Estimate(0.5, 0.2, 0.8, 8)
    checks = [Check("long", half, 0.75, False), Check("agreement", half, 0.9, False)]
    run = RunSummary()
    run.judge = JudgeCheck(
        "j", "digest", (*checks, Check("german", half, 0.4, True)), 93, 1.0
    )
    kind, failed = weighty(run)
    assert kind.startswith("the judge misreads a kind of answers: judge long 50.0%")
    assert failed.startswith("the judge failed its check: judge agreement 50.0%")
