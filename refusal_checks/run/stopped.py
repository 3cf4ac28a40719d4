"""How a session ends if its engine did not start."""

from __future__ import annotations

import pytest

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

# Named like a built-in exception: pytest would put the name of any other module before the message.
_Stopped = type("Stopped", (pytest.exit.Exception,), {"__module__": "builtins"})


def stopped(message: str) -> BaseException:
    """The exception that ends a session with ``EXIT_ENGINE``."""
    fault: BaseException = _Stopped(message, EXIT_ENGINE)
    return fault
