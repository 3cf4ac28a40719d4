"""Options that name models: what makes no sense for those that are named."""

from __future__ import annotations

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.models.spec import Rule, Served
from refusal_checks.run.options.models import NamedJudge, require_chance

SEVERAL = JudgeSampling(samples=3, temperature=0.6)
KEYWORD = NamedJudge("keyword", Rule("keyword"))
MODEL = NamedJudge("org/judge", Served("org/judge", "org/judge"))


def test_several_verdicts_of_rules_alone_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        require_chance(SEVERAL, [KEYWORD])
    assert str(caught.value) == (
        "--judge-samples 3: leave it out, or name a model with --judge: keyword gives the same "
        "verdict each time"
    )


@pytest.mark.parametrize(
    ("sampling", "judges"),
    [(JudgeSampling(), [KEYWORD]), (SEVERAL, [MODEL]), (SEVERAL, [KEYWORD, MODEL])],
)
def test_one_verdict_or_a_model_is_enough(
    sampling: JudgeSampling, judges: list[NamedJudge]
) -> None:
    require_chance(sampling, judges)
