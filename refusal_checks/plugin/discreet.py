"""Tracebacks of a redacted run: without the values of variables, which hold texts."""

from __future__ import annotations

import pytest
from _pytest._code.code import ExceptionRepr


class Discreet:
    """A plugin of its own, registered where ``--redact`` is given."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.showlocals = config.option.fulltrace = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Say where it happened; what the error says may quote a text, in the XML report too."""
        place = excinfo.traceback[-1]
        where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
        excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]
