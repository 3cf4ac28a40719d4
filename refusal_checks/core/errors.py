"""The exceptions of this package.

::

    RefusalChecksError
    ├── UserError              what the user wrote; names the thing and the remedy (exit 4)
    │   ├── ThresholdError     a threshold file
    │   ├── ModelError         a model, an endpoint or one of their options
    │   ├── DataError          a benchmark's data, a mirror, recorded answers
    │   ├── CalibrationError   a judge's calibration, or human labels, that cannot be used
    │   └── BaselineError      an earlier run that figures are compared with
    └── InfrastructureError    nobody's input: shown as ERROR, never as a failed gate
        ├── EngineStartError   vLLM did not come up (ends the session)
        ├── EngineDiedError    vLLM ended during the run
        ├── EndpointError      a server answered with an error that a retry does not cure
        ├── StoreError         the store could not be read or written
        └── EvaluationError    figures that cannot be computed, for example no valid verdict at all
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable
from difflib import get_close_matches


class RefusalChecksError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class UserError(RefusalChecksError):
    """A value that the user gave is wrong; the message names it and says what to do."""


class ThresholdError(UserError):
    """A threshold file cannot be read, or says something that no gate can mean."""


class ModelError(UserError):
    """A model cannot be found or reached as it was named."""


class DataError(UserError):
    """A benchmark's data or a file of recorded answers is not what it must be."""


class CalibrationError(UserError):
    """A calibration or human labels are wrong, or those of something else than this run."""


class BaselineError(UserError):
    """A baseline cannot be read, or comes from a run that this one cannot be compared with."""


class InfrastructureError(RefusalChecksError):
    """The run could not be carried out; says nothing about the candidate."""


class EngineStartError(InfrastructureError):
    """vLLM ended, or stayed silent too long, before it answered its first health check."""


class EngineDiedError(InfrastructureError):
    """vLLM ended while requests were waiting for it."""


class EndpointError(InfrastructureError):
    """A server answered with an error; ``status`` is the HTTP status, 0 where there was none.

    Servers may say what cannot be encoded (lone surrogates); that is replaced.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message.encode("utf-8", "replace").decode("utf-8"))
        self.status = status


class StoreError(InfrastructureError):
    """The store of completions and judgements could not be read or written."""


class EvaluationError(InfrastructureError):
    """A figure could not be computed."""


def first_of(fault: BaseException) -> BaseException:
    """The first of a group of exceptions, or the only one."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def reason(fault: BaseException) -> str:
    """Why something ended, in words."""
    fault = first_of(fault)
    if isinstance(fault, RefusalChecksError):
        return str(fault)
    if isinstance(fault, OSError) and fault.filename:
        return f"{fault.filename}: {fault.strerror}; see to that, then run the same command again"
    if isinstance(fault, CancelledError):
        return "the evaluation was stopped before it was complete"
    return f"{type(fault).__name__}: {fault}"


def require_known(
    name: str,
    known: Iterable[str],
    where: str,
    what: str,
    error: Callable[[str], Exception] = ThresholdError,
) -> None:
    """Raise unless ``name`` is known, naming the nearest name and all that are known."""
    names = sorted(known)
    if name in names:
        return
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    raise error(f'{where}: no {what} "{name}"{hint} Known: {", ".join(names)}')
