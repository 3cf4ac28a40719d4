"""The tables of a run file: one class for each table, one field for each key."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.reservation_kinds import RESERVATIONS
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import (
    CONNECTIONS,
    Filtered,
    FromFile,
    Frozen,
    JudgementSettings,
    Limits,
    MultipleChoice,
    PerMinute,
    RecordingTable,
    RequestPace,
    Seconds,
)
from refusal_checks.core.suggestions import suggest
from refusal_checks.engines.placement import Wanted
from refusal_checks.gates.gate import Decision, OnInconclusive, Waiver
from refusal_checks.io.files import read_bytes
from refusal_checks.trust.minimums import JudgeMinimums


def _as_list(value: object) -> object:
    """Wrap a single value in a list, for a key that takes one value or several."""
    return value if isinstance(value, list | tuple) else (value,)


def _as_words(value: object) -> object:
    """Join a list of words as a shell would write them."""
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value


def _as_text(value: object) -> object:
    """Convert a number, such as a device's, to text."""
    return str(value) if type(value) is int else value


Several = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(strict=False)]
Tables = Annotated[
    tuple[dict[str, Any], ...], BeforeValidator(_as_list), Field(strict=False)
]


_ARGS = "engine arguments as one string, passed on unchanged"
_VARIABLES = "variables for its chat template"
_REASONING_END = "text that ends its reasoning, if vLLM has no parser for it"


class ModelTable(Frozen):
    """How models of a role are asked."""

    concurrency: int = Field(
        CONNECTIONS, ge=1, description="maximum requests in flight to its server"
    )
    requests_per_minute: PerMinute = Field(
        None, description="maximum requests per minute to a server you attach to"
    )
    devices: Annotated[str, BeforeValidator(_as_text)] = Field(
        "",
        description="GPUs or CPU cores for its engine, such as 0,1; give the other engine "
        "different ones",
    )

    @property
    def pace(self) -> RequestPace:
        return RequestPace(self.requests_per_minute, self.concurrency)

    @property
    def device_ids(self) -> tuple[str, ...]:
        names = [name.strip() for name in self.devices.split(",")]
        return tuple(name for name in names if name)


def _require_named(*names: str) -> None:
    if any(not name.strip() for name in names):
        raise ValueError("name a model: the name is empty")


class CandidateTable(ModelTable):
    """The model under test."""

    model: str = Field(
        "",
        description="the model under test: ORG/MODEL or a folder (starts an engine), a server "
        "(http://HOST/v1#MODEL), a model of an extension (PREFIX:NAME), or replay:FILE "
        "(recorded answers)",
    )
    name: str = Field("", description="name in reports (default: the path's last part)")
    args: Annotated[str, BeforeValidator(_as_words)] = Field("", description=_ARGS)
    template_variables: dict[str, Any] = Field({}, description=_VARIABLES)
    reasoning_end: str = Field("", description=_REASONING_END)
    judge_reasoning: bool | None = Field(
        None,
        description="true if users see the reasoning, so that it is judged as part of the answer; "
        "false if they do not",
    )
    filtered: Filtered = Field(
        "invalid",
        description="what an answer withheld by the server's content filter counts as; say "
        "refusal if your users get the same filter",
    )

    @field_validator("model", mode="before")
    @classmethod
    def _is_one(cls, value: object) -> object:
        if isinstance(value, list):
            # Several in one run would share its store, folder and exit code.
            raise ValueError(
                "name one model, and start a run for each in a shell: "
                "for model in A B; do refusal-checks gate $model --judge JUDGE; done"
            )
        if isinstance(value, str):
            _require_named(value)
        return value

    @property
    def title(self) -> str:
        """The name in reports: ``name`` if given, else the last part of the path."""
        path = self.model.rpartition("#")[2].strip("/")
        return self.name or path.rpartition("/")[2] or self.model


class JudgeTable(ModelTable, JudgementSettings, JudgeSampling):
    """The judge, how it writes its verdicts, and how good it must be."""

    has_other_keys = True
    model: Several = Field(
        (),
        description="the judge: a model named in the same way as the candidate, "
        "moderation:URL#MODEL, keyword or labels; with several, the majority decides",
    )
    args: Several = Field((), description=_ARGS)
    template_variables: Tables = Field((), description=_VARIABLES)
    reasoning_end: Several = Field((), description=_REASONING_END)
    prompt: Annotated[Several, FromFile()] = Field(
        (),
        description="judge prompt: one of the package's by name, or a .md file; by default the "
        "one that suits the model",
    )
    check: JudgeMinimums | None = Field(
        None,
        description="figures that the judge must reach on exchanges with known verdicts",
    )

    @field_validator("check", mode="before")
    @classmethod
    def _is_table(cls, value: object) -> object:
        if value is True:
            raise ValueError("write judge.check={}")
        if value is False:
            raise ValueError(
                "remove check from [judge] in the run file, or set "
                "trust.allow_untrusted_judge=true to decide gates whatever the check finds"
            )
        return value

    @field_validator("model")
    @classmethod
    def _are_named(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        _require_named(*names)
        return names

    @property
    def minimums(self) -> JudgeMinimums | None:
        """The minimums for its figures; None if none is checked."""
        return self.check if self.check and self.check.figures else None

    @property
    def sampling(self) -> JudgeSampling:
        """Sampling of verdicts, with only the keys that were set; see ``of_reasoning``."""
        names = self.model_fields_set & JudgeSampling.model_fields.keys()
        return JudgeSampling(**{name: getattr(self, name) for name in names})


class SamplingTable(Sampling):
    """How the candidate's answers are sampled."""

    has_other_keys = True
    system_prompt_file: Annotated[str, FromFile()] = Field(
        "", description="file with the system prompt"
    )

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        if self.system_prompt and self.system_prompt_file:
            raise ValueError("give system_prompt or system_prompt_file, not both")
        return self

    def with_prompt_text(self) -> Sampling:
        """Sampling of answers, with the system prompt read from its file.

        Raises:
            UserError: the file cannot be read.
        """
        given = self.model_fields_set & Sampling.model_fields.keys()
        values = {name: getattr(self, name) for name in given}
        name = self.system_prompt_file
        if not name:
            return Sampling(**values)
        try:
            text = read_bytes(Path(name)).decode().strip()
        except DataError as fault:
            raise UserError(f"sampling.system_prompt_file {fault}") from None
        except UnicodeDecodeError:
            raise UserError(
                f"sampling.system_prompt_file {name}: save it as UTF-8"
            ) from None
        return Sampling(**{**values, "system_prompt": text})


class EngineTable(Frozen):
    """How the models' engines start, and where they run."""

    command: str = Field(
        "",
        description="program that starts the engine in place of vLLM's own; it gets the same "
        "arguments",
    )
    placement: Wanted = Field(
        "auto",
        description="whether the engines run at the same time (together) or one after the other "
        "(turns); auto chooses what fits this machine",
    )
    start_timeout: Seconds = Field(
        1800.0, description="seconds that an engine may take to start"
    )


class DataTable(Frozen):
    """Where public data comes from."""

    mirror: Annotated[str, FromFile()] = Field(
        "", description="mirror of public data ($REFUSAL_CHECKS_DATA)"
    )


class StoreTable(Frozen):
    """Stored answers and verdicts."""

    file: Annotated[str, FromFile()] = Field(
        "",
        description="file of stored answers and verdicts (default: .refusal-checks/store.sqlite)",
    )
    fresh: bool = Field(
        False,
        description="ask for everything again, and never reuse what is stored for these models",
    )
    reuse: bool = Field(
        False,
        description="also reuse what attached servers answered in earlier runs",
    )
    only: bool = Field(
        False,
        description="use only what is stored, without engines or servers; other answers are "
        "invalid",
    )
    retry_unfinished: bool = Field(
        False,
        description="ask again where a stored answer was cut off by the server",
    )


class BaselineTable(Frozen):
    """The earlier run to compare with."""

    path: Annotated[str, FromFile()] = Field(
        "",
        description="earlier run to compare with: last, an id, a run's folder, its summary.json, "
        "or a folder of accepted baselines",
    )
    allow_incomparable: bool = Field(
        False,
        description="compare even if the judge, data or sampling differ",
    )


class TrustTable(Frozen):
    """What is known about the judge besides its verdicts."""

    human_labels: Annotated[str, FromFile()] = Field(
        "",
        description="sheet from `refusal-checks sample-for-labels`, in which people labelled "
        "answers that counted as refusals",
    )
    allow_untrusted_judge: bool = Field(
        False, description="decide gates even if the judge fails its check"
    )


class ReportsTable(Frozen):
    """The reports to write. Extensions add keys: the names of their report formats."""

    model_config = ConfigDict(extra="allow")

    html: Annotated[str, FromFile()] = Field("", description="HTML report of the run")
    markdown: Annotated[str, FromFile()] = Field(
        "", description="Markdown for a pull request, without texts"
    )
    junit: Annotated[str, FromFile()] = Field(
        "", description="JUnit XML of the gates, for runs without pytest"
    )
    failing_prompts: int = Field(
        5, ge=0, description="prompts that a failed gate lists"
    )
    redact: bool = Field(
        False,
        description="show hashes and lengths instead of prompts, answers and rationales "
        "($REFUSAL_CHECKS_REDACT=1)",
    )
    runs: Annotated[str, FromFile()] = Field(
        "", description="folder of the runs ($REFUSAL_CHECKS_RUNS)"
    )

    def target(self, name: str) -> str:
        """Where a report goes, usually a file; empty if it is not requested."""
        value = getattr(self, name, "")
        return value if isinstance(value, str) else ""

    @property
    def formats(self) -> list[str]:
        """Keys that are not fields: report formats from extensions."""
        return list(self.__pydantic_extra__ or {})


class GateSettings(Frozen):
    """The ``[settings]`` table.

    Attributes:
        confidence: level of intervals (two-sided) and comparisons (one-sided).
        decision: ``point`` compares the figure with the bounds, ``confident`` its interval.
        on_inconclusive: what an inconclusive gate does; by default its figure decides if
            ``decision`` is ``point``, else it fails.
        require_baseline: refuse a run whose margins have no baseline; otherwise skip them.
        require_all: no plain yes if ``-k`` or ``-m`` left gates out.
    """

    confidence: float = Field(0.95, ge=0.5, lt=1)
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    require_baseline: bool = False
    require_all: bool = False


class Acceptance(Waiver):
    """``{ until = ..., by = ..., reason = ... }``: accepts a reservation until a date."""

    key: ClassVar[str] = "ID"
    does: ClassVar[str] = "accepts"


class AcceptTable(Frozen):
    """Accepted reservations by id, which do not stop a release; see ``RESERVATIONS``."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Acceptance] = Field(init=False)

    @model_validator(mode="before")
    @classmethod
    def _are_known(cls, values: Any) -> Any:
        for name in values if isinstance(values, dict) else ():
            if name not in RESERVATIONS:
                raise ValueError(
                    f"no such reservation: {name}{suggest(name, RESERVATIONS)} (known: "
                    f"{', '.join(RESERVATIONS)})"
                )
        return values

    @property
    def granted(self) -> dict[str, Waiver]:
        """The acceptances by id, including expired ones."""
        return dict(self.__pydantic_extra__)


TABLES: Mapping[str, type[Frozen]] = {
    "candidate": CandidateTable,
    "sampling": SamplingTable,
    "judge": JudgeTable,
    "limits": Limits,
    "engine": EngineTable,
    "data": DataTable,
    "recording": RecordingTable,
    "multiple_choice": MultipleChoice,
    "store": StoreTable,
    "baseline": BaselineTable,
    "trust": TrustTable,
    "reports": ReportsTable,
    "settings": GateSettings,
    "accept": AcceptTable,
}
"""The tables of a run file other than benchmarks."""

NAMED: Mapping[str, str] = {
    "candidate": "candidate.model",
    "judge": "judge.model",
    "samples": "sampling.samples",
    "seed": "sampling.seed",
    "limit": "limits.prompts",
    "data": "data.mirror",
    "store": "store.file",
    "fresh": "store.fresh",
    "baseline": "baseline.path",
    "human-labels": "trust.human_labels",
    "html": "reports.html",
    "redact": "reports.redact",
    "runs": "reports.runs",
}
"""Keys that people often type, by the name of the option that each has."""
