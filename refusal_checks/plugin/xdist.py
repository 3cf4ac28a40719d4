"""What the controller of an xdist run tells its workers before anything is collected."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

KEY = "refusal_checks"
"""Key of ``workerinput``."""

_SHARED = pytest.StashKey["Shared"]()


@dataclass(frozen=True)
class Shared:
    """The same in all processes of a run.

    Attributes:
        run: name of the run; folders of runs begin with it.
        signal: file that a worker makes if it collects gates that the controller does not expect,
            because no option of gates was given; the controller then says what is missing. Empty
            if it expects them.
    """

    run: str
    signal: str

    def say_gates(self) -> None:
        """Tell the controller that there are gates, if it does not expect any."""
        if self.signal:
            Path(self.signal).touch()

    def has_gates(self) -> bool:
        """True, once, if a worker collected gates."""
        try:
            Path(self.signal).unlink()
        except OSError:
            return False
        return True

    def as_input(self, *, expects_gates: bool) -> dict[str, str]:
        """For a worker, in a form that xdist can send."""
        return asdict(replace(self, signal="") if expects_gates else self)


def is_worker(config: pytest.Config) -> bool:
    """True in a worker of an xdist run."""
    return hasattr(config, "workerinput")


def shared(config: pytest.Config) -> Shared:
    """What this process shares: as the controller says, else new."""
    if _SHARED not in config.stash:
        sent = getattr(config, "workerinput", {}).get(KEY)
        config.stash[_SHARED] = Shared(**sent) if sent else _new()
    return config.stash[_SHARED]


def _new() -> Shared:
    name = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}"
    return Shared(name, str(Path(tempfile.gettempdir()) / f"refusal-checks-{uuid4().hex}"))
