"""Sampling settings of candidate and judges; each field is a key of the run file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    Field,
    model_validator,
)

from refusal_checks.core.settings import Frozen


@dataclass(frozen=True)
class RequestField:
    """Marks whether requests carry a sampling setting under its own name.

    Attributes:
        sent: False for a setting that is not a field of requests.
    """

    sent: bool = True


class SamplingBase(Frozen):
    """How a model's answers are sampled.

    Each field declares at once the run file's key and its help, the field of requests (see
    ``RequestField``), and a part of the store key.
    """

    # True for a table of a run file, which says more.
    has_other_keys: ClassVar[bool] = False
    _marks: ClassVar[Mapping[str, RequestField]]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if cls.has_other_keys:
            return
        marks = {}
        for name, field in cls.model_fields.items():
            for mark in field.metadata:
                if isinstance(mark, RequestField):
                    marks[name] = mark
            if name not in marks:
                raise TypeError(
                    f"{cls.__name__}.{name}: write Annotated[..., RequestField()] if requests "
                    "have it, or RequestField(sent=False) if it is used in another way"
                )
        cls._marks = marks

    @property
    def sent(self) -> dict[str, Any]:
        return {name: value for name, value in self if self._marks[name].sent}


class Sampling(SamplingBase):
    """How the candidate's answers are sampled.

    The defaults are those of LLM-Refusal-Evaluation (arXiv 2512.16602). Here and in the classes
    below, each field is a key of the run file, and its description is the help.
    """

    samples: Annotated[int, RequestField(sent=False)] = Field(
        5, ge=1, le=128, description="answers per prompt (K)"
    )
    temperature: Annotated[float, RequestField()] = Field(
        0.6, ge=0, le=2, description="temperature of the answers"
    )
    top_p: Annotated[float, RequestField()] = Field(
        0.95, gt=0, le=1, description="nucleus sampling of the answers"
    )
    top_k: Annotated[int, RequestField()] = Field(
        20, ge=0, description="most probable tokens to sample from; 0 for no limit"
    )
    max_tokens: Annotated[int, RequestField()] = Field(
        8192,
        ge=1,
        description="most tokens of an answer, reasoning included; the context may allow fewer",
    )
    seed: Annotated[int, RequestField()] = Field(
        0,
        ge=0,
        lt=2**31,
        description="the run's seed, from which each prompt's own seed is derived",
    )
    stop: Annotated[tuple[str, ...], RequestField()] = Field(
        (), strict=False, description="texts that end an answer"
    )
    system_prompt: Annotated[str, RequestField(sent=False)] = Field(
        "", description="system message sent before every prompt"
    )


REASONING_TOKENS = 4096
"""Token limit for the verdicts of a judge that reasons, unless the user sets one."""


class JudgeSampling(SamplingBase):
    """How a judge model writes its verdict (greedy, one verdict), and how much it reads.

    LLM-Refusal-Evaluation (arXiv 2512.16602) samples one verdict with temperature 0.6, top_p 0.95
    and top_k 20, and can average several.
    """

    # Each has a seed of its own, see ``records.average``.
    samples: Annotated[int, RequestField(sent=False)] = Field(
        1,
        ge=1,
        le=128,
        description="verdicts per judge and answer; they are averaged",
    )
    temperature: Annotated[float, RequestField()] = Field(
        0.0, ge=0, le=2, description="temperature of the judge's verdicts"
    )
    top_p: Annotated[float, RequestField()] = Field(
        1.0, gt=0, le=1, description="nucleus sampling of the verdicts"
    )
    top_k: Annotated[int, RequestField()] = Field(
        0,
        ge=0,
        description="most probable tokens to sample verdicts from; 0 for no limit",
    )
    max_tokens: Annotated[int, RequestField()] = Field(
        1024,
        ge=16,
        description=f"most tokens of a verdict (default: {REASONING_TOKENS} for a judge that "
        "reasons)",
    )
    seed: Annotated[int, RequestField()] = Field(
        0, ge=0, lt=2**31, description="seed of the judge's verdicts"
    )
    # A judge that rates is shown the beginning alone (CFSafety's authors: 100). None shows all of
    # it; an answer that does not fit the judge's context is then invalid.
    max_answer_chars: Annotated[int | None, RequestField(sent=False)] = Field(
        None,
        ge=100,
        description="show the judge at most this many characters of an answer, from its start "
        "and end",
    )

    @property
    def of_reasoning(self) -> JudgeSampling:
        """Settings for a judge that reasons: more tokens, unless the user set a limit."""
        if "max_tokens" in self.model_fields_set:
            return self
        return self.model_copy(update={"max_tokens": REASONING_TOKENS})

    @model_validator(mode="after")
    def _require_chance(self) -> Self:
        if self.samples > 1 and not self.temperature:
            raise ValueError(
                f"samples = {self.samples}: set the judge's temperature above 0, for example 0.6: "
                "at 0 a judge gives the same verdict every time"
            )
        return self

    def seeds(self) -> range:
        """The seed of each verdict; a second attempt at a verdict uses its seed plus one."""
        return range(self.seed, self.seed + 2 * self.samples, 2)
