"""A run as a value: everything that decides what an evaluation does.

A run is read from TOML files (``RunSpec.read``), then ``--set TABLE.KEY=VALUE``, then the few
options with names of their own; a later value of a key replaces an earlier one. Each table of a run
file is a class in ``tables``, and each key a field with its type, default, bounds and description.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SkipValidation,
    ValidationError,
)

from refusal_checks.benchmarks import Benchmark, catalogue, discover
from refusal_checks.config import toml_file
from refusal_checks.config.benchmark_tables import read_benchmarks, take_extensions
from refusal_checks.config.layers import (
    Layer,
    read_table,
    require_tables,
)
from refusal_checks.config.tables import (
    TABLES,
    AcceptTable,
    BaselineTable,
    CandidateTable,
    DataTable,
    EngineTable,
    GateSettings,
    JudgeTable,
    ReportsTable,
    SamplingTable,
    StoreTable,
    TrustTable,
)
from refusal_checks.core import suggestions
from refusal_checks.core.errors import ThresholdError, UserError
from refusal_checks.core.settings import (
    BenchmarkTable,
    Limits,
    MultipleChoice,
    RecordingTable,
)
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.io import extensions
from refusal_checks.models.model_names import DEMO_RECORDINGS


class SpecTables(BaseModel):
    """The tables of a run file other than benchmarks; keys that are not set have their defaults."""

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
    accept: AcceptTable = AcceptTable()

    def dump_set_keys(self) -> dict[str, Any]:
        """The keys that were set, for the manifest; extensions' targets are left out as secrets.

        Gates are recorded with their verdicts instead.
        """
        names = {name for name in TABLES if getattr(self, name).model_fields_set}
        written = self.model_dump(mode="json", include=names, exclude_unset=True)
        for name in self.reports.formats:
            written["reports"].pop(name, None)
        return written


class RunSpec(SpecTables):
    """Everything that defines a run. A spec is immutable; ``with_values`` returns a changed copy.

    Attributes:
        benchmarks: the keys of each benchmark apart from its gates, by benchmark name.
        files: the run files, in order.
    """

    # Validated where they are read, with the place for messages.
    gates: SkipValidation[tuple[Gate, ...]] = ()
    benchmarks: SkipValidation[Mapping[str, BenchmarkTable]] = Field(
        default_factory=dict
    )
    files: SkipValidation[tuple[Path, ...]] = ()
    _layers: tuple[Layer, ...] = PrivateAttr(())

    def __init__(self, *unnamed: object, **tables: Any) -> None:
        """Build a run from tables: ``RunSpec(candidate={"model": "ORG/MODEL"})``.

        Raises:
            UserError: a table or key is wrong.
        """
        if unnamed:
            raise UserError(
                "RunSpec: write RunSpec.from_dict({...}) for a dict of tables, or "
                'RunSpec.read("FILE.toml") for a run file'
            )
        try:
            super().__init__(**tables)
        except ValidationError as fault:
            first = suggestions.first_error(fault)
            key = suggestions.error_key(first)
            place = f"RunSpec: {key} = {first['input']!r}"
            if first["type"] == "model_type":
                remedy = f'give a dict, RunSpec({key}={{"KEY": VALUE}})'
            else:
                remedy = suggestions.describe_error(first, type(self))
            raise UserError(f"{place}: {remedy}") from None

    @classmethod
    def read(cls, *files: str | PathLike[str], overrides: Iterable[Layer] = ()) -> Self:
        """Read run files; later files win, key by key and gate by gate.

        Args:
            files: paths, or names of files that come with the package (``smoke``); by default the
                project's ``thresholds/default.toml``, else the package's.
            overrides: values that win over the files; see ``layers.parse_override``.

        Raises:
            UserError: a file is wrong; the message says where and what to write instead.
        """
        extensions.require_sound()
        overrides = list(overrides)
        for name in files:
            if not isinstance(name, str | PathLike):
                raise UserError(
                    'RunSpec.read: give the path of each run file, RunSpec.read("FILE.toml"), or '
                    f"pass a dict to RunSpec.from_dict: {name!r:.60} is not a path"
                )
        paths = [toml_file.find(Path(name)) for name in files]
        if not paths:
            paths = [usual_file(Path.cwd(), overrides)]
        parsed: dict[Path, dict[str, Any]] = {}
        for path in paths:
            # A file that is named twice keeps its last place only.
            parsed.pop(path, None)
            parsed[path] = toml_file.read(path)
        # First of all: metrics and ways of judging of extensions are what tables are read by.
        take_extensions(parsed)
        layers = [
            Layer(content, where=str(path), folder=path.parent)
            for path, content in parsed.items()
        ]
        spec = cls._merge_layers([*layers, *overrides], tuple(paths))
        if not spec.gates and not spec.measured:
            raise ThresholdError(
                f"no benchmark in {', '.join(map(str, paths))}: write a gate, for example "
                "[xstest_unsafe] with rejection_rate = { min = 0.80 }"
            )
        return spec

    @classmethod
    def from_layers(cls, layers: Iterable[Layer]) -> Self:
        """Build a run without files; it need not have gates."""
        return cls._merge_layers(list(layers), ())

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> Self:
        """Build a run from the tables of a run file: ``{"xstest_safe": {"limit": 20}}``.

        Raises:
            UserError: a table or key is wrong.
        """
        extensions.require_sound()
        _require_dict("from_dict", tables)
        for name, table in tables.items():
            if name in TABLES and not isinstance(table, Mapping):
                key = "model" if name in ("candidate", "judge") else "KEY"
                raise UserError(
                    f"from_dict: {name} = {table!r}: write "
                    f'{{"{name}": {{"{key}": {table!r}}}}}, with a dict for each table'
                )
        return cls._merge_layers([Layer(tables, where="from_dict")], ())

    def with_value(self, key: str, value: object) -> Self:
        """Return a copy with another value for one key; see ``with_values``."""
        return self.with_values({key: value})

    def with_values(self, values: Mapping[str, object]) -> Self:
        """Return a copy with other values: ``spec.with_values({"sampling.samples": 2})``.

        A key may be a bound: ``"xstest_safe.rejection_rate.max"``. The gate's other bounds stay.

        Raises:
            UserError: there is no such key, or a value is not valid for it.
        """
        _require_dict("with_values", values)
        content: dict[str, Any] = {}
        for key, value in values.items():
            *tables, name = key.split(".")
            inner = content
            for table in tables:
                inner = inner.setdefault(table, {})
            inner[name] = os.fspath(value) if isinstance(value, PathLike) else value
        written, option = "with_values", ""
        if len(values) == 1:
            written = option = f"{key} = {value!r}"
        layer = Layer(content, where=written, option=option)
        require_tables(layer)
        # Settings are defaults of gates, so that changing them makes all gates anew.
        own = [name for name in content if name in TABLES and name != "settings"]
        changed: dict[str, Any] = {}
        for name in own:
            # Keys that were set, without defaults: some keys say more by having been set.
            set_before = getattr(self, name).model_dump(exclude_unset=True)
            before = Layer({name: set_before}, where=written)
            changed[name] = read_table(name, TABLES[name], [before, layer])
        if content.keys() - own:  # gates, and the settings that they depend on
            if self.gates and not self._layers:
                raise UserError(
                    f"{written}: change the gates in a run file, then load it with RunSpec.read"
                )
            merged = type(self)._merge_layers([*self._layers, layer], self.files)
            for name in ("gates", "benchmarks", "settings"):
                changed[name] = getattr(merged, name)
        spec = self.model_copy(update=changed)
        spec._layers = (*self._layers, layer)
        return spec

    @classmethod
    def _merge_layers(cls, layers: Sequence[Layer], files: tuple[Path, ...]) -> Self:
        tables = {name: read_table(name, kind, layers) for name, kind in TABLES.items()}
        settings = tables["settings"]
        assert isinstance(settings, GateSettings)
        for layer in layers:
            require_tables(layer)
        gates, benchmarks = read_benchmarks(layers, discover(), settings)
        spec = cls.model_validate(
            {**tables, "gates": gates, "benchmarks": benchmarks, "files": files}
        )
        spec._layers = tuple(layers)
        return spec

    def catalogue(self) -> Mapping[str, Benchmark]:
        """All benchmarks that gates may use, including those defined in the run files."""
        return catalogue(self.benchmarks)

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The names of the run's benchmarks: the gated ones, then those only measured."""
        gated = dict.fromkeys(gate.benchmark for gate in self.gates)
        return (*gated, *self.measured.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all gates, and of the benchmarks that are only measured."""
        return (*(gate.id for gate in self.gates), *self.measured)

    @property
    def measured(self) -> dict[str, str]:
        """The benchmarks without a gate, by id: ``{"xstest_safe-measured": "xstest_safe"}``."""
        gated = {gate.benchmark for gate in self.gates}
        return {
            measured_id(name): name for name in self.benchmarks if name not in gated
        }

    def where(self, key: str) -> str:
        """The place to name in messages where a key such as ``judge.args`` was last set."""
        table, _, name = key.partition(".")
        for layer in reversed(self._layers):  # the last one wins
            content = layer.content.get(table)
            if isinstance(content, dict) and name in content:
                return layer.option or f"{layer.where}: [{table}] {name}"
        return f"[{table}] {name}"

    @property
    def usual_seed(self) -> int:
        """The seed in the run files, whatever an option says."""
        return int(self._usual("sampling", "seed", self.sampling.seed) or 0)

    def usual_limit(self, benchmark: str) -> int | None:
        """The limit on prompts in the run files, whatever an option says."""
        table = self.benchmarks.get(benchmark)
        limit: int | None = self._usual(benchmark, "limit", table and table.limit)
        return limit

    def _usual(self, table: str, key: str, value: Any) -> Any:
        """A key's value in the files, given its value now; None if only an option sets it."""
        # Options are what somebody tried once: a luckier seed, fewer prompts. Files are reviewed.
        given = [it for it in self._layers if key in it.content.get(table, {})]
        written = [it.content[table][key] for it in given if it.folder is not None]
        if not given:
            return value
        return written[-1] if written else None

    @property
    def tables(self) -> SpecTables:
        """Only the tables, as the manifest stores them."""
        return SpecTables(**{name: getattr(self, name) for name in TABLES})


def usual_file(folder: Path, overrides: Iterable[Layer]) -> Path:
    """The project's run file, or the package's if there is none.

    The demo recordings have a run file of their own.
    """
    # The usual gates are on public data, which a first try without a network does not have.
    for layer in overrides:
        if layer.content.get("candidate", {}).get("model") in DEMO_RECORDINGS:
            return toml_file.FOLDER / "demo.toml"
    own = folder / "thresholds" / "default.toml"
    return own if own.is_file() else toml_file.DEFAULT


def _require_dict(function: str, given: object) -> None:
    """Refuse what is not a dict: notebooks have no type checker."""
    if not isinstance(given, Mapping):
        raise UserError(f"{function}: give a dict, not {given!r}")
