"""Dependencies that only some users need: extras of the package, imported where they are used."""

from __future__ import annotations

from importlib.util import find_spec

from refusal_checks.core.errors import UserError


def require_extra(module: str, extra: str, what: str) -> None:
    """Check that an optional dependency is installed.

    Raises:
        UserError: it is not; names the extra that installs it.
    """
    if find_spec(module) is None:
        raise UserError(
            f'install the extra "{extra}" (pip install "refusal-checks[{extra}]"): {what} '
            f"{module}, which is not installed"
        )
