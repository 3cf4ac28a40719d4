"""The exceptions of this package.

A ``UserError`` ends with exit code 4; an ``InfrastructureError`` is reported as ERROR, never as a
failed gate.
"""

import re
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Iterable

from refusal_checks.core.suggestions import suggest
from refusal_checks.core.text import replace_surrogates


class RefusalChecksError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class UserError(RefusalChecksError):
    """The input is wrong; the message names the value and says what to write."""


class ThresholdError(UserError):
    """A run file cannot be read, or defines an impossible gate."""


class ModelError(UserError):
    """A model cannot be found or reached under the name given."""


class DataError(UserError):
    """A benchmark's data or a file of recorded answers cannot be used."""


class LabelError(UserError):
    """Human labels are wrong, or do not belong to this run."""


class BaselineError(UserError):
    """A baseline cannot be read, or is not comparable with this run."""


class InfrastructureError(RefusalChecksError):
    """The run failed, which says nothing about the candidate."""


class EngineStartError(InfrastructureError):
    """An engine ended or timed out before it was ready; this ends the session."""


class EngineDiedError(InfrastructureError):
    """An engine ended while requests were waiting for it."""


class EndpointError(InfrastructureError):
    """A server failed; ``status`` is the HTTP status, or 0 without one.

    Lone surrogates in its message, which cannot be encoded, are replaced.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(replace_surrogates(message))
        self.status = status


class StoreError(InfrastructureError):
    """The store of completions and judgements cannot be read or written."""


class EvaluationError(InfrastructureError):
    """A figure cannot be computed."""


def first_cause(fault: BaseException) -> BaseException:
    """The first exception in a group, or the exception itself."""
    if isinstance(fault, BaseExceptionGroup):
        return first_cause(fault.exceptions[0])
    return fault


def reason(fault: BaseException) -> str:
    """Describe an exception for people."""
    fault = first_cause(fault)
    if isinstance(fault, RefusalChecksError):
        return str(fault)
    if isinstance(fault, OSError) and fault.filename:
        return f"{fault.filename}: {fault.strerror}; fix this and run the same command again"
    if isinstance(fault, CancelledError):
        return "the evaluation was stopped before it was complete"
    said = f"{type(fault).__name__}: {fault}"
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def describe_network_fault(fault: BaseException) -> str:
    """Say briefly why a request failed, without libraries' repetitions and object names."""
    text = " ".join(str(fault).split())
    cause = re.search(
        r"Failed to resolve '[^']+'|\[Errno -?\d+\] [A-Za-z ]+|\b\d{3} Client Error[^.:]*|"
        r"Connection refused|timed out",
        text,
    )
    if cause:
        return cause[0].strip()
    return text[:200]


def require_known(
    name: str,
    valid: Iterable[str],
    where: str,
    what: str,
    error: Callable[[str], Exception] = ThresholdError,
    remedy: str = "",
) -> None:
    """Raise an error with the nearest and all valid names unless ``name`` is one of them."""
    names = sorted(valid)
    if name in names:
        return
    hint = suggest(name, names) or "."
    raise error(
        f'{where}: no {what} "{name}"{hint} Known: {", ".join(names) or "none"}{remedy}'
    )
