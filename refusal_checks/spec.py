"""A run as a value: everything that decides what an evaluation does.

A run is read from TOML files (``RunSpec.read``), then from ``--set TABLE.KEY=VALUE``, then from the
few options that have a name of their own; of two that speak of the same key, the later one wins.
Each table of a run file is a class below, and each key one of its fields: type, default, bounds and
description are written once, there.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SkipValidation,
    field_validator,
    model_validator,
)

from refusal_checks.benchmarks import Benchmark, catalogue, discover
from refusal_checks.benchmarks.attacks import Attacked
from refusal_checks.core import extensions
from refusal_checks.core.errors import ThresholdError, UserError
from refusal_checks.core.files import why_no_file
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import (
    CONNECTIONS,
    BenchmarkTable,
    Cascading,
    ClassifierForm,
    FromFile,
    Frozen,
    Limits,
    MultipleChoice,
    PerMinute,
    Rationales,
    RequestPace,
    Seconds,
)
from refusal_checks.core.suggestions import near
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import Wanted
from refusal_checks.gates import thresholds, toml_file
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.tables import Bounds, GateSettings
from refusal_checks.judges.trust.floors import JudgeFloors


def _as_list(value: object) -> object:
    """A single value as the list of it, where a key takes one value or several."""
    return value if isinstance(value, list | tuple) else (value,)


def _as_text(value: object) -> object:
    """A number, such as that of a device, as a text."""
    return str(value) if type(value) is int else value


def _as_texts(value: object) -> object:
    """A table with its numbers as texts: cells of files are compared as texts."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(item) if type(item) in (int, float) else item
        for key, item in value.items()
    }


Several = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(strict=False)]
Tables = Annotated[
    tuple[dict[str, Any], ...], BeforeValidator(_as_list), Field(strict=False)
]
Texts = Annotated[dict[str, str], BeforeValidator(_as_texts)]


class ModelTable(Frozen):
    """A model and how it is asked; several models if ``model`` is a list."""

    model: Several = Field(
        (), description="the model: ORG/MODEL, a folder or a server's URL"
    )
    args: Several = Field(
        (),
        description="arguments for its engine, passed on unchanged, as one text; a list has one "
        "for each model",
    )
    template_variables: Tables = Field(
        (),
        description="variables of its chat template; a list has a table for each model",
    )
    reasoning_end: Several = Field(
        (),
        description="text that ends its reasoning, where vLLM has no parser for it; a list has "
        "one for each model",
    )
    concurrency: int = Field(
        CONNECTIONS, ge=1, description="most requests in flight to its server"
    )
    requests_per_minute: PerMinute = Field(
        None, description="most requests per minute to a server that others run"
    )
    devices: Annotated[str, BeforeValidator(_as_text)] = Field(
        "",
        description="GPUs or CPU cores for its engine, such as 0,1; the other model gets the rest",
    )

    @field_validator("model")
    @classmethod
    def _is_named(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if any(not name.strip() for name in names):
            raise ValueError("name a model: it is empty")
        return names

    @property
    def pace(self) -> RequestPace:
        return RequestPace(self.requests_per_minute, self.concurrency)


class CandidateTable(ModelTable):
    """The model under test; of several, each is tested in turn."""

    model: Several = Field(
        (),
        description="the model under test: ORG/MODEL or a folder (starts an engine), a server "
        "(http://HOST/v1#MODEL), demo:NAME, or replay:FILE (recorded answers); "
        "several are tested in turn",
    )
    name: Several = Field(
        (),
        description="name in test ids and reports, so that a test's history does not depend on a "
        "path (default: the path's last part)",
    )


class JudgeTable(ModelTable, JudgeSampling):
    """The judge, how it writes its verdicts, and what it must be able to do."""

    has_other_keys = True
    model: Several = Field(
        (),
        description="the judge: a model named like the candidate, bundled, keyword or labels; of "
        "several, the majority decides, but a model beside bundled is asked only "
        "where bundled is unsure",
    )
    prompt: Annotated[Several, FromFile()] = Field(
        (),
        description="judge prompt: refusal, wildguard, harmbench or a .md file; a list has one "
        "for each model",
    )
    rationales: Rationales = Field(
        "all",
        description="all: judges write reasons before each verdict; offenders: verdicts alone, "
        "and reasons later for answers that reports show",
    )
    check: JudgeFloors | None = Field(
        None,
        description="what the judge must reach on exchanges with known verdicts",
    )
    classifier: ClassifierForm | None = Field(
        None, description="how a sequence classifier reads an exchange"
    )
    cascade: Cascading = Field(
        Cascading(), description="when a model beside bundled is asked"
    )

    @property
    def sampling(self) -> JudgeSampling:
        """How verdicts are drawn; it knows what was set, see ``JudgeSampling.of_reasoning``."""
        names = self.model_fields_set & JudgeSampling.model_fields.keys()
        return JudgeSampling(**{name: getattr(self, name) for name in names})


class SamplingTable(Sampling):
    """How the candidate's answers are drawn."""

    has_other_keys = True
    either: ClassVar = ("system_prompt", "system_prompt_file")
    system_prompt_file: Annotated[str, FromFile()] = Field(
        "", description="file with the system prompt"
    )

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        if self.system_prompt and self.system_prompt_file:
            raise ValueError("system_prompt and system_prompt_file: give one of them")
        return self

    @property
    def drawn(self) -> Sampling:
        """The settings of each answer, with the system prompt that the file holds.

        Raises:
            UserError: the file cannot be read.
        """
        values = {name: getattr(self, name) for name in Sampling.model_fields}
        name = self.system_prompt_file
        if not name:
            return Sampling(**values)
        where = f"sampling.system_prompt_file {name}"
        try:
            text = Path(name).read_text(encoding="utf-8").strip()
        except OSError as fault:
            why = why_no_file(Path(name)) or f"cannot be read: {fault.strerror}"
            raise UserError(f"{where}: {why}") from None
        except UnicodeDecodeError:
            raise UserError(f"{where}: save it as UTF-8") from None
        return Sampling(**{**values, "system_prompt": text})


class EngineTable(Frozen):
    """What serves models that are started here, and where."""

    name: str = Field(
        kinds.AUTO,
        # No kinds are looked up here: extensions, which may import this module, add some.
        description="what serves models that are started here: vllm, transformers, one that an "
        f"extension adds, or auto: {kinds.PREFERRED} if it is installed, else another one that is",
    )
    command: str = Field(
        "",
        description="program that starts the engine in place of the default; it gets the engine's "
        "arguments",
    )
    placement: Wanted = Field(
        "auto",
        description="where engines run: together on the same devices, in turns, split over "
        "devices of their own, or auto for what fits this machine",
    )
    start_timeout: Seconds = Field(
        1800.0, description="seconds that an engine may take to start"
    )


class DataTable(Frozen):
    """Where public data comes from."""

    mirror: Annotated[str, FromFile()] = Field(
        "", description="mirror of public data ($REFUSAL_CHECKS_DATA)"
    )


class RecordingTable(Frozen):
    """How recorded answers (``replay:FILE``) are read."""

    columns: Texts = Field(
        {},
        description="columns of a recording: id, prompt, completion, label, finish_reason, "
        "logprob (mean), or total_logprob and tokens; a dot leads into nested values "
        "(doc.prompt)",
    )
    where: Texts = Field(
        {}, description='read only rows with these values: { model = "GPT4" }'
    )
    labels: Texts = Field(
        {},
        description="meaning of recorded labels: refusal, compliance, a degree, a score or "
        "invalid",
    )
    partial: bool = Field(
        False,
        description="leave out prompts without a recorded answer, and say how many",
    )


class StoreTable(Frozen):
    """Stored answers and verdicts."""

    file: Annotated[str, FromFile()] = Field(
        "",
        description="file of stored answers and verdicts (default: .refusal-checks/store.sqlite)",
    )
    fresh: bool = Field(
        False,
        description="ask for everything anew, and never use again what is stored of these models",
    )
    only: bool = Field(
        False,
        description="start no engine and ask no server; answers that are not stored are invalid",
    )
    retry_unfinished: bool = Field(
        False,
        description="ask again for stored answers that the server cut off, for example by a "
        "content filter",
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
        description="compare even if judge, data or sampling differ",
    )


class TrustTable(Frozen):
    """What is known of the judge besides its verdicts."""

    calibration: Annotated[str, FromFile()] = Field(
        "",
        description="the judge's error rates, from `refusal-checks calibrate --out`: show "
        "corrected rates beside the raw ones",
    )
    human_labels: Annotated[Several, FromFile()] = Field(
        (),
        description="labels of a random sample of this run's answers, from `refusal-checks "
        "sample-for-labels`: estimate the rates that people would find",
    )
    allow_undrawn_labels: bool = Field(
        False,
        description="accept labels of answers that were not drawn at random; they decide only "
        "where they cover every prompt",
    )
    allow_untrusted_judge: bool = Field(
        False, description="decide gates even if the judge fails its check"
    )


class ReportsTable(Frozen):
    """What is written about a run. Extensions add keys: the names of their report formats."""

    model_config = ConfigDict(extra="allow")

    html: Annotated[str, FromFile()] = Field(
        "", description="HTML report of the run, from the first answer on"
    )
    junit_prompts: Annotated[str, FromFile()] = Field(
        "", description="JUnit XML with one case per prompt, for browsing"
    )
    pr_comment: Annotated[str, FromFile()] = Field(
        "", description="Markdown comment for a pull request, without texts"
    )
    offenders: int = Field(5, ge=0, description="prompts that a failed gate lists")
    redact: bool = Field(
        False,
        description="show ids, hashes and lengths instead of prompts, answers and rationales; the "
        "texts stay in the store ($REFUSAL_CHECKS_REDACT=1)",
    )
    runs: Annotated[str, FromFile()] = Field(
        "", description="folder of the runs ($REFUSAL_CHECKS_RUNS)"
    )

    def target(self, name: str) -> str:
        """The file, or what else a report format is given; empty if it is not wanted."""
        value = getattr(self, name, "")
        return value if isinstance(value, str) else ""

    @property
    def formats(self) -> list[str]:
        """The keys that no field declares: the names of formats that extensions add."""
        return list(self.__pydantic_extra__ or {})


@dataclass(frozen=True)
class Layer:
    """Keys of tables that were written in one place.

    Attributes:
        content: values by key, by table.
        where: names the place: a file, or the words of the command line.
        folder: the folder that relative paths start from; None for the current one.
        option: the option of the command line that gave the one value; empty elsewhere.
    """

    content: Mapping[str, Any]
    where: str
    folder: Path | None = None
    option: str = ""


class RunSpec(BaseModel):
    """Everything that a run is. A spec is immutable; ``with_value`` makes another one.

    Attributes:
        benchmarks: keys of benchmarks other than gates, by name of the benchmark.
        attacked: the attacks on each benchmark.
        files: the run files, in order.
        notes: remarks about the files for the user.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    candidate: CandidateTable = CandidateTable()
    sampling: SamplingTable = SamplingTable()
    judge: JudgeTable = JudgeTable()
    limits: Limits = Limits()
    engine: EngineTable = EngineTable()
    data: DataTable = DataTable()
    recording: RecordingTable = RecordingTable()
    multiple_choice: MultipleChoice = MultipleChoice()
    store: StoreTable = StoreTable()
    baseline: BaselineTable = BaselineTable()
    trust: TrustTable = TrustTable()
    reports: ReportsTable = ReportsTable()
    settings: GateSettings = GateSettings()
    gates: SkipValidation[tuple[Gate, ...]] = ()
    benchmarks: SkipValidation[Mapping[str, BenchmarkTable]] = Field(
        default_factory=dict
    )
    attacked: SkipValidation[Attacked] = Field(default_factory=dict)
    files: SkipValidation[tuple[Path, ...]] = ()
    notes: tuple[str, ...] = ()
    _layers: tuple[Layer, ...] = PrivateAttr(())

    @classmethod
    def read(cls, *files: str | PathLike[str], overrides: Iterable[Layer] = ()) -> Self:
        """Read run files; later ones win key by key, and gate by gate.

        Args:
            files: paths, or names of files that come with the package (``smoke``); by default the
                project's ``thresholds/default.toml``, else the shipped one.
            overrides: values that win over the files; see ``override``.

        Raises:
            UserError: a file is wrong; the message says where, and what to write.
        """
        extensions.require_sound()
        paths = [toml_file.find(Path(fspath(name))) for name in files] or [
            usual_file(Path.cwd())
        ]
        parsed: dict[Path, dict[str, Any]] = {}
        for path in paths:
            parsed.pop(
                path, None
            )  # a file that is named twice counts where it is named last
            parsed[path] = toml_file.read(path)
        thresholds.take_extensions(parsed)
        layers = [
            Layer(content, where=str(path), folder=path.parent)
            for path, content in parsed.items()
        ]
        spec = cls._merged([*layers, *overrides], tuple(paths))
        if not spec.gates:
            raise ThresholdError(
                f"no gate in {', '.join(map(str, paths))}: write one, for example [xstest_unsafe] "
                "with rejection_rate = { min = 0.80 }; without gates every model would pass"
            )
        return spec

    @classmethod
    def of(cls, layers: Iterable[Layer]) -> Self:
        """A run without files, such as a calibration's: it may have no gates."""
        return cls._merged(list(layers), ())

    def with_value(self, key: str, value: object) -> Self:
        """Return the run with another value of one key: ``spec.with_value("sampling.samples", 2)``.

        The key may be a bound: ``"xstest_safe.rejection_rate.max"``. Other bounds of the gate stay.

        Raises:
            UserError: there is no such key, or the value is not valid for it.
        """
        content: Any = os.fspath(value) if isinstance(value, PathLike) else value
        for part in reversed(key.split(".")):
            content = {part: content}
        said = f"{key} = {value!r}"
        layer = Layer(content, where=said, option=said)
        table = key.partition(".")[0]
        if table in TABLES and table != "settings":  # which gates depend on
            _require_tables(layer)
            own = Layer(
                {table: getattr(self, table).model_dump(exclude_unset=True)}, where=said
            )
            changed = {table: _read_table(table, TABLES[table], [own, layer])}
        else:
            if self.gates and not self._layers:
                raise UserError(
                    f"{said}: read the run from a file, to change its gates"
                )
            merged = type(self)._merged([*self._layers, layer], self.files)
            names = ("gates", "benchmarks", "attacked", "notes", "settings")
            changed = {name: getattr(merged, name) for name in names}
        spec = self.model_copy(update=changed)
        spec._layers = (*self._layers, layer)
        return spec

    @classmethod
    def _merged(cls, layers: Sequence[Layer], files: tuple[Path, ...]) -> Self:
        tables = {
            name: _read_table(name, kind, layers) for name, kind in TABLES.items()
        }
        settings = tables["settings"]
        assert isinstance(settings, GateSettings)
        others: dict[Path, dict[str, Any]] = {}
        so_far: dict[str, Any] = {}
        for layer in layers:
            _require_tables(layer)
            place = Path(layer.where)
            others.pop(place, None)  # what is said twice counts where it is said last
            written = _of_benchmarks(layer)
            # A file says all of a gate; what sets one bound leaves its others.
            so_far = _over(so_far, written, keeps_bounds=layer.folder is None)
            others[place] = (
                _picked(so_far, written) if layer.folder is None else written
            )
        merged = thresholds.merge(others, discover(), settings, TABLES)
        spec = cls.model_validate(
            {
                **tables,
                "gates": merged.gates,
                "benchmarks": merged.tables,
                "attacked": merged.attacked,
                "files": files,
                "notes": merged.notes,
            }
        )
        spec._layers = tuple(layers)
        return spec

    def catalogue(self) -> Mapping[str, Benchmark]:
        """All benchmarks that gates may be on, those that the files define included."""
        return catalogue(self.benchmarks, self.attacked)

    def where(self, key: str) -> str:
        """Where a key such as ``judge.args`` was written last, for messages."""
        table, _, name = key.partition(".")
        for layer in reversed(self._layers):
            content = layer.content.get(table)
            if isinstance(content, dict) and name in content:
                return layer.option or f"{layer.where}: [{table}] {name}"
        return f"[{table}] {name}"

    def recorded(self) -> dict[str, Any]:
        """The keys that were set, as a manifest records them; targets of extensions may be secret.

        Gates are recorded with their verdicts.
        """
        names = {name for name in TABLES if getattr(self, name).model_fields_set}
        written = self.model_dump(mode="json", include=names, exclude_unset=True)
        for name in self.reports.formats:
            written["reports"].pop(name, None)
        return written


TABLES: Mapping[str, type[Frozen]] = {
    name: field.annotation
    for name, field in RunSpec.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Frozen)
}
"""The tables of a run file that are not benchmarks."""

NAMED: Mapping[str, str] = {
    "candidate": "candidate.model",
    "candidate-name": "candidate.name",
    "candidate-args": "candidate.args",
    "judge": "judge.model",
    "judge-prompt": "judge.prompt",
    "judge-args": "judge.args",
    "samples": "sampling.samples",
    "temperature": "sampling.temperature",
    "max-tokens": "sampling.max_tokens",
    "seed": "sampling.seed",
    "system-prompt": "sampling.system_prompt",
    "limit": "limits.prompts",
    "stop-early": "limits.stop_early",
    "data": "data.mirror",
    "store": "store.file",
    "fresh": "store.fresh",
    "stored-only": "store.only",
    "baseline": "baseline.path",
    "calibration": "trust.calibration",
    "human-labels": "trust.human_labels",
    "allow-untrusted-judge": "trust.allow_untrusted_judge",
    "engine": "engine.name",
    "redact": "reports.redact",
    "offenders": "reports.offenders",
    "runs": "reports.runs",
}
"""Keys that also have an option of their own: those that people type. Reports have one, too."""


def usual_file(folder: Path) -> Path:
    """The run file of a project, or else the one that comes with the package."""
    own = folder / "thresholds" / "default.toml"
    return own if own.is_file() else toml_file.DEFAULT


def override(text: str) -> Layer:
    """What ``--set TABLE.KEY=VALUE`` says; VALUE is TOML, and anything else a text as it is.

    Raises:
        UserError: the text does not have this form.
    """
    key, equals, value = text.partition("=")
    where = f"--set {text}"
    if not (key.strip() and equals):
        raise UserError(
            f"{where}: write --set TABLE.KEY=VALUE, as in --set sampling.samples=2"
        )
    # A line break could begin a table of its own.
    lines = [f"{key} = {json.dumps(value.strip())}"]
    if "\n" not in text and "\r" not in text:
        lines.insert(0, text)
    for line in lines:
        try:
            return Layer(tomllib.loads(line), where=where, option=where)
        except (
            ValueError,
            RecursionError,
        ):  # no TOML, or a number of thousands of digits
            continue
    raise UserError(
        f"{where}: write --set TABLE.KEY=VALUE: {key!r} is no key of a table"
    )


def named(option: str, value: object) -> Layer:
    """What an option with a name of its own says."""
    table, _, key = NAMED[option.removeprefix("--")].partition(".")
    single = value[0] if isinstance(value, list) and len(value) == 1 else value
    shown = "" if single is True or isinstance(single, list) else f" {single}"
    return Layer({table: {key: value}}, where=option, option=f"{option}{shown}")


def key_kind(key: str) -> Any:
    """The type of a key such as ``limits.prompts``, without ``None``."""
    table, _, name = key.partition(".")
    kind: Any = TABLES[table].model_fields[name].annotation
    options = [option for option in get_args(kind) if option is not type(None)]
    is_optional = type(None) in get_args(kind)
    return options[0] if is_optional else kind


def description(key: str) -> str:
    """What a key means, with its default if that says something."""
    table, _, name = key.partition(".")
    field = TABLES[table].model_fields[name]
    text = field.description or ""
    default = field.default
    if default in (None, "", (), False):
        return text
    shown = f"{default:g}" if isinstance(default, float) else default
    return f"{text} (default: {shown})"


def _copied(content: Any) -> Any:
    """A copy of nested tables, which merging changes."""
    if isinstance(content, dict):
        return {key: _copied(value) for key, value in content.items()}
    return content


_BOUNDS = frozenset(Bounds.model_fields)


def _holds_bounds(table: Mapping[str, Any], depth: int) -> bool:
    """Whether a table, so deep below that of a benchmark, is what a file says of a gate."""
    return depth >= 2 and not _BOUNDS.isdisjoint(table)


def _over(before: Any, after: Any, *, keeps_bounds: bool, depth: int = 0) -> Any:
    """Tables of benchmarks, with what a later layer says over what earlier ones do."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    if _holds_bounds(after, depth):
        return {**before, **after} if keeps_bounds else after
    result = dict(before)
    for key, value in after.items():
        old = before.get(key)
        result[key] = _over(old, value, keeps_bounds=keeps_bounds, depth=depth + 1)
    return result


def _picked(merged: Any, written: Any, depth: int = 0) -> Any:
    """What was merged, at the places that a layer has written to."""
    if not (isinstance(merged, dict) and isinstance(written, dict)):
        return merged
    if _holds_bounds(written, depth):
        return dict(merged)
    return {
        key: _picked(merged[key], value, depth + 1) for key, value in written.items()
    }


def _joined(before: Any, after: Any) -> Any:
    """Two values of a key: tables key by key, else the later one."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    joined = dict(before)
    for key, value in after.items():
        joined[key] = _joined(joined[key], value) if key in joined else value
    return joined


def _of_benchmarks(layer: Layer) -> dict[str, Any]:
    """What a layer says of benchmarks, as a copy."""
    tables: dict[str, Any] = _copied(
        {name: table for name, table in layer.content.items() if name not in TABLES}
    )
    if layer.folder is None:  # else merging has them start from the file's folder
        for table in tables.values():
            for key in {"file", "rubric"} & table.keys():
                if isinstance(table[key], str):
                    table[key] = str(Path.cwd() / table[key])
    return tables


def _require_tables(layer: Layer) -> None:
    """Refuse a key that stands in no table, as in ``--set samples=2``."""
    for name, table in layer.content.items():
        if isinstance(table, dict):
            continue
        places = [
            f"{owner}.{name}"
            for owner, kind in TABLES.items()
            if name in kind.model_fields
        ]
        hint = f'; did you mean "{places[0]}"?' if places else near(name, TABLES)
        raise UserError(f"{layer.where}: write TABLE.KEY=VALUE{hint}")


def _read_table(name: str, kind: type[Frozen], layers: Sequence[Layer]) -> Frozen:
    """A table from all layers; what is wrong is said of the layer that wrote it.

    A file is right by itself, or with those before it. Words of the command line are right
    together: one may need what a later one says.
    """
    merged: dict[str, Any] = {}
    table = kind()
    errors: list[UserError] = []
    for layer in layers:
        if name not in layer.content:
            continue
        where = f"{layer.where}: [{name}]"
        written = layer.content[name]
        if not isinstance(written, dict):
            raise ThresholdError(f"{where}: must be a table")
        if layer.folder:
            written = _below(layer.folder, kind, written)
        merged = _joined(_without_alternatives(kind, merged, written), written)
        try:
            table = kind.read(merged, where, ThresholdError, option=layer.option)
            errors = []
        except ThresholdError as fault:
            if layer.folder:
                raise
            errors.append(UserError(*fault.args))
    if errors:
        raise errors[0]
    return table


def _without_alternatives(
    kind: type[Frozen], merged: Mapping[str, Any], written: Mapping[str, Any]
) -> dict[str, Any]:
    """What earlier layers say, less what a later one says in another way."""
    either: Sequence[str] = getattr(kind, "either", ())
    replaced = either if set(either) & written.keys() else ()
    return {name: value for name, value in merged.items() if name not in replaced}


def _below(
    folder: Path, kind: type[Frozen], table: Mapping[str, Any]
) -> dict[str, Any]:
    """A table of a file, its relative paths starting from the file's folder."""

    def joined(value: object, name: str) -> object:
        if isinstance(value, list):
            return [joined(each, name) for each in value]
        is_path = isinstance(value, str) and value != ""
        if (
            name == "prompt"
        ):  # else it is the name of a prompt that comes with the package
            is_path = is_path and str(value).endswith(".md")
        if name == "path":  # else it is a run
            is_path = is_path and (folder / str(value)).exists()
        return str(folder / str(value)) if is_path else value

    placed = dict(table)
    for name, value in table.items():
        field = kind.model_fields.get(name)
        if field and any(isinstance(each, FromFile) for each in field.metadata):
            placed[name] = joined(value, name)
    return placed
