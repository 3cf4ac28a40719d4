"""A misspelt environment variable is refused: what it was to hide would be published."""

import pytest

from refusal_checks.config import variables
from refusal_checks.core.errors import UserError


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("REFUSAL_CHECKS_REDACTED", "REFUSAL_CHECKS_REDACT"),
        ("REFUSAL_CHECKS_RUN", "REFUSAL_CHECKS_RUNS"),
        ("REFUSAL_CHECKS_JUDGE_KEY", "REFUSAL_CHECKS_JUDGE_API_KEY"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    name: str, meant: str
) -> None:
    with pytest.raises(UserError, match=f'{name}, which .* did you mean "{meant}"'):
        variables.require_known([name, "PATH"])


def test_known_variables_keys_of_one_judge_and_those_of_kubernetes_stay() -> None:
    variables.require_known(
        [
            *variables.KNOWN,
            "REFUSAL_CHECKS_JUDGE_2_API_KEY",
            "REFUSAL_CHECKS_SERVICE_HOST",
            "REFUSAL_CHECKS_PORT_8000_TCP_ADDR",
        ]
    )
