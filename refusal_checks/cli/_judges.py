"""The judge's options of a gate run, for commands: each is declared once, in ``run.options``.

Everything that is part of a judge's identity is an option of both, or a calibration could not be of
the judge that a gate run asks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from refusal_checks.core.settings import Cascading, JudgeSampling, Writing
from refusal_checks.run.options import models as model_options

_PREFIX = "judge_"
_CASCADE = "cascade_"


@dataclass(frozen=True)
class JudgeOptions:
    """The judges' options in the form in which pytest gives them to a gate run."""

    values: Mapping[str, Any]

    def getoption(self, name: str) -> Any:
        """An option's value; None if it was not given."""
        return self.values.get(name.removeprefix("--").replace("-", "_"))


def with_judge_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: the command gets the judges' options, together as ``judge_options``."""
    extra = {each.name: each for each in _parameters()}

    def run(**values: Any) -> None:
        judging = {name: values.pop(name) for name in extra}
        command(**values, judge_options=JudgeOptions(judging))

    own = inspect.signature(command, eval_str=True).parameters
    kept = [each for name, each in own.items() if name != "judge_options"]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*kept, *extra.values())]
    )
    return run


def _parameters() -> Iterator[inspect.Parameter]:
    for option, (metavar, text) in model_options.judge_extras().items():
        yield _parameter(option.removeprefix("--").replace("-", "_"), list[str], metavar, text)
    for name, field in JudgeSampling.model_fields.items():
        yield _parameter(_PREFIX + name, field.annotation, None, field.description or "")
    for name, field in Writing.model_fields.items():
        yield _parameter(name, field.annotation, None, field.description or "")
    for name, field in Cascading.model_fields.items():
        if name != "sample":  # all labelled answers are read by both
            yield _parameter(_CASCADE + name, field.annotation, None, field.description or "")


def _parameter(name: str, kind: Any, metavar: str | None, text: str) -> inspect.Parameter:
    option = typer.Option(metavar=metavar, help=f"{text[:1].upper()}{text[1:]}.")
    kept = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kept, default=None, annotation=Annotated[kind | None, option])
