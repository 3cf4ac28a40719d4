"""This package's environment variables; any other name with its prefix is a mistake."""

import os
import re
from collections.abc import Iterable

from refusal_checks.core.errors import UserError
from refusal_checks.core.suggestions import suggest

KNOWN = (
    "REFUSAL_CHECKS_CANDIDATE_API_KEY",
    "REFUSAL_CHECKS_DATA",
    "REFUSAL_CHECKS_DEMO_MODELS",
    "REFUSAL_CHECKS_ENGINE_VARIABLES",
    "REFUSAL_CHECKS_JUDGE_API_KEY",
    "REFUSAL_CHECKS_REDACT",
    "REFUSAL_CHECKS_RUNS",
)

_KEY_OF_ONE = re.compile(r"REFUSAL_CHECKS_(CANDIDATE|JUDGE)_\d+_API_KEY")

_OF_KUBERNETES = re.compile(r".*_(SERVICE_(HOST|PORT.*)|PORT(_\d+_.*)?)")
"""Variables that Kubernetes sets in every container if a service is named refusal-checks."""


def require_known(environment: Iterable[str] = os.environ) -> None:
    """Refuse a misspelt variable: a misspelt ``REFUSAL_CHECKS_REDACT`` would publish texts.

    Raises:
        UserError: a variable has this package's prefix and no known name.
    """
    for name in environment:
        if not name.startswith("REFUSAL_CHECKS_") or name in KNOWN:
            continue
        if not (_KEY_OF_ONE.fullmatch(name) or _OF_KUBERNETES.fullmatch(name)):
            raise UserError(
                f"correct or unset the environment variable {name}, which is not known"
                f"{suggest(name, KNOWN) or '.'} Known: {', '.join(KNOWN)}"
            )
