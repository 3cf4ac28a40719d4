"""A run as a value: what files, ``--set`` and options say, which of them wins, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks import RunSpec
from refusal_checks.config.layers import Layer, option_layer, parse_override
from refusal_checks.config.tables import NAMED, TABLES
from refusal_checks.core.errors import UserError
from refusal_checks.plugin.options import OPTIONS
from refusal_checks.run.inputs import Folders, read_inputs
from tests.unit.conftest import Write

GATE = "[smoke_unsafe]\nrejection_rate = { min = 0.8 }\n"


def read(write: Write, text: str = "", *settings: str, gates: str = GATE) -> RunSpec:
    """A run file with gates and these lines, and what ``--set`` says besides."""
    path = write("run.toml", f"{text}\n{gates}")
    return RunSpec.read(path, overrides=map(parse_override, settings))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sampling.samples=0", "--set sampling.samples=0: must be at least 1"),
        ("sampling.smples=2", "--set sampling.smples=2: no such key; did you mean "),
        ("samples=2", 'write TABLE.KEY=VALUE; did you mean "sampling.samples"?'),
        ("sampling=2", "--set sampling=2: [sampling]: must be a table"),
        ("judge.check=false", "remove check from [judge] in the run file"),
        ("sampling.samples", "write --set TABLE.KEY=VALUE, as in"),
        ("sampling samples=2", "'sampling samples' is not a key of a table"),
        (
            "candidate.args=[--dtype=float32, --seed 1]",
            """quote it for the shell: --set 'candidate.args=["TEXT"]'""",
        ),
        (
            "recording.columns={completion=said,prompt='q'}",
            """for the shell: --set 'recording.columns={KEY="TEXT"}'""",
        ),
        (
            "judge.samples=3",
            "--set judge.samples=3: samples = 3: set the judge's tempera",
        ),
        ("smoke_unsafe.rejection_rate.mn=0.5", 'no such key; did you mean "min"?'),
    ],
)
def test_what_set_refuses(write: Write, setting: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(write, "", setting)
    said = str(caught.value)
    assert message in said
    assert said.startswith("--set")
    assert said.isprintable()


@pytest.mark.parametrize(
    ("text", "table", "key", "value"),
    [
        ("store.fresh = true", "store", "fresh", True),
        ("judge.args=--max-model-len 9", "judge", "args", "--max-model-len 9"),
        ('judge.model=["a", "b"]', "judge", "model", ["a", "b"]),
        ("engine.command=run 'a' \"c\" \\d", "engine", "command", "run 'a' \"c\" \\d"),
        ('smoke_unsafe."a.b".x=1', "smoke_unsafe", "a.b", {"x": 1}),
        (f"sampling.seed={'9' * 5000}", "sampling", "seed", "9" * 5000),
    ],
)
def test_a_value_on_the_command_line_is_toml_or_else_a_text(
    text: str, table: str, key: str, value: object
) -> None:
    assert parse_override(text).content == {table: {key: value}}


def test_what_is_said_later_wins_key_by_key(write: Write) -> None:
    first = write("first.toml", f"[sampling]\nsamples = 3\nseed = 3\ntop_k = 3\n{GATE}")
    second = write("second.toml", "[sampling]\nseed = 4\ntop_k = 4\n")
    overrides = [parse_override("sampling.top_k=5"), option_layer("samples", 7)]
    spec = RunSpec.read(first, second, overrides=overrides)
    assert (spec.sampling.samples, spec.sampling.seed, spec.sampling.top_k) == (7, 4, 5)
    assert spec.sampling.temperature == 0.6, "a default"
    assert spec.where("sampling.seed") == f"{second}: [sampling] seed"
    assert spec.where("sampling.top_k") == "--set sampling.top_k=5"
    assert spec.where("sampling.samples") == "--samples 7"
    assert RunSpec.read(second, first).sampling.seed == 3


@pytest.mark.parametrize(
    ("file", "seeds"), [("", (9, 0)), ("[sampling]\nseed = 4", (9, 4))]
)
def test_the_usual_seed_is_that_of_the_files(
    write: Write, file: str, seeds: tuple[int, int]
) -> None:
    option = RunSpec.read(
        write("run.toml", f"{file}\n{GATE}"), overrides=[option_layer("seed", 9)]
    )
    value = read(write, file).with_value("sampling.seed", 9)
    for spec in (option, value):
        assert (spec.sampling.seed, spec.usual_seed) == seeds


def test_a_system_prompt_is_given_once_and_may_be_a_file(write: Write) -> None:
    write("prompt.txt", "from the file\n")
    own = '[sampling]\nsystem_prompt_file = "prompt.txt"'
    assert read(write, own).sampling.with_prompt_text().system_prompt == "from the file"
    with pytest.raises(UserError, match="not both"):
        read(write, f"{own}\nsystem_prompt = 'said'")
    replaced = ("sampling.system_prompt=said", "sampling.system_prompt_file=")
    assert (
        read(write, own, *replaced).sampling.with_prompt_text().system_prompt == "said"
    )


def test_another_value_makes_another_run(write: Write) -> None:
    spec = read(write, "[sampling]\nsamples = 3")
    other = spec.with_values(
        {
            "sampling.samples": 2,
            "candidate.args": ["--dtype", "float32"],
            "judge.samples": 3,  # which needs the next one
            "judge.temperature": 0.6,
            "smoke_unsafe.rejection_rate.min": 0.9,
        }
    )
    assert (spec.sampling.samples, spec.judge.samples, spec.gates[0].min) == (3, 1, 0.8)
    assert (other.sampling.samples, other.judge.samples) == (2, 3)
    assert (other.candidate.args, other.gates[0].min) == ("--dtype float32", 0.9)
    assert other.files == spec.files


def test_a_run_is_read_from_a_dict() -> None:
    spec = RunSpec.from_dict(
        {
            "xstest_safe": {"rejection_rate": {"max": 0.1}, "limit": 20},
            "xstest_unsafe": {},
            "sampling": {"samples": 2},
        }
    )
    assert spec.gates[0].id == "xstest_safe-rejection_rate"
    assert spec.measured == {"xstest_unsafe-measured": "xstest_unsafe"}
    assert (spec.sampling.samples, spec.benchmarks["xstest_safe"].limit) == (2, 20)


def test_paths_start_from_their_file_and_else_from_here(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "accepted").mkdir()
    text = (
        '[store]\nfile = "../s.sqlite"\n[reports]\nhtml = "out.html"\nruns = "/all/runs"\n'
        '[judge]\nmodel = ["a", "b"]\nprompt = ["harmbench", "mine.md"]\n'
        '[baseline]\npath = "../accepted"\n[own]\nfile = "rows.csv"\nexpect = "refuse"\n'
    )
    spec = RunSpec.read(write("own/run.toml", text))
    assert spec.store.file == str(folder / "../s.sqlite")
    assert (spec.reports.html, spec.reports.runs) == (f"{folder}/out.html", "/all/runs")
    assert spec.judge.prompt == ("harmbench", str(folder / "mine.md"))
    assert spec.baseline.path == str(folder / "../accepted")
    assert spec.benchmarks["own"].file == str(folder / "rows.csv")
    monkeypatch.chdir(tmp_path)
    here = spec.with_values({"store.file": "s.sqlite", "own.file": "own/other.csv"})
    assert here.store.file == "s.sqlite"
    assert here.benchmarks["own"].file == str(folder / "other.csv")
    last = read(write, '[baseline]\npath = "last"')
    assert last.baseline.path == "last", "a run, no file"


def test_without_files_the_project_s_own_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "refusal_checks" in str(RunSpec.read().files[0])
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "default.toml").write_text(GATE)
    assert [gate.benchmark for gate in RunSpec.read().gates] == ["smoke_unsafe"] * 2


def test_every_key_says_what_it_means_and_every_option_has_a_key() -> None:
    for name, table in TABLES.items():
        for key, field in table.model_fields.items():
            assert name == "settings" or field.description, f"{name}.{key}"
    assert {option.name for option in OPTIONS} == {*NAMED, "set", "thresholds"}
    for option, key in NAMED.items():
        group, name = key.split(".")
        assert option_layer(option, 1).content == {group: {name: 1}}
        assert name in TABLES[group].model_fields


def test_what_is_recorded_is_the_run() -> None:
    tables = {
        "candidate": {
            "model": 'a "b"\n\\c',
            "devices": 3,
            "template_variables": {"é ": True, "": "x"},
        },
        "judge": {"model": ["a", "b"], "check": {"specificity": {"min": 0.1}}},
        "sampling": {"stop": ["\x1b", ""], "temperature": 1 / 3},
        "recording": {"columns": {"prompt": "0", "completion": 1}},
    }
    spec = RunSpec.from_dict(tables)
    recorded = json.loads(json.dumps(spec.dump_set_keys()))
    again = RunSpec.from_layers([Layer(recorded, "manifest.json")])
    assert again.tables == spec.tables
    assert again.dump_set_keys() == spec.dump_set_keys()


def test_targets_of_extensions_are_not_recorded(write: Write) -> None:
    spec = read(write, '[reports]\nhtml = "a.html"\nsecret_sink = "https://token@host"')
    assert "token" not in str(spec.dump_set_keys())
    assert spec.reports.formats == ["secret_sink"]


GATED = """
[xstest_safe]
rejection_rate = { max = 0.10, max_rise = 0.03, decision = "confident" }
[xstest_safe.category.homonyms]
rejection_rate = { max = 0.20, max_rise = 0.10 }
"""


def test_setting_one_bound_leaves_the_gate_s_others(write: Write) -> None:
    gate = "xstest_safe.rejection_rate"
    spec = read(write, "", f"{gate}.max=0.08", f"{gate}.max_rise=0.02", gates=GATED)
    spec = spec.with_value("xstest_safe.category.homonyms.rejection_rate.max", 0.3)
    whole, group = (gate for gate in spec.gates if gate.metric == "rejection_rate")
    assert (whole.max, whole.max_rise, whole.decision) == (0.08, 0.02, "confident")
    assert (group.max, group.max_rise) == (0.3, 0.1)
    assert read(write, "", "smoke_unsafe.limit=2").benchmarks["smoke_unsafe"].limit == 2
    measured = read(write, "", "smoke_unsafe.rejection_rate=false")
    assert (measured.gates, measured.ids) == ((), ("smoke_unsafe-measured",))


def test_a_later_file_says_all_of_a_gate(write: Write) -> None:
    file = write("gates.toml", GATED)
    looser = write("looser.toml", "[xstest_safe]\nrejection_rate = { max = 0.2 }\n")
    for files, maximum, margin in (
        ((file, looser), 0.2, None),
        ((file, looser, file), 0.1, 0.03),  # named last, it counts last
    ):
        first = RunSpec.read(*files).gates[0]
        assert (first.max, first.max_rise) == (maximum, margin)


def test_a_line_break_in_a_value_begins_no_other_table(write: Write) -> None:
    spec = read(write, "", "sampling.system_prompt=first\n[judge]\nseed=3")
    assert spec.judge.seed == 0
    assert spec.sampling.system_prompt == "first\n[judge]\nseed=3"


def test_a_wrong_model_is_said_where_it_was_written(
    write: Write, tmp_path: Path
) -> None:
    models = '[candidate]\nmodel = "/no/model"\n[judge]\nmodel = "keyword"\n'
    file = write("run.toml", models + GATE)
    option = option_layer("candidate", "/other")
    for overrides, said in (
        ([], f"{file}: [candidate] model: /no/model: no such folder"),
        ([option], "--candidate /other: no such folder"),
    ):
        spec = RunSpec.read(file, overrides=overrides)
        with pytest.raises(UserError, match=f"^{re.escape(said)}"):
            read_inputs(spec, Folders(tmp_path, tmp_path / "runs"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RunSpec.from_dict({"sampling": {"sample": 2}}),
            "from_dict: [sampling]: sample = 2: no such key; ",
        ),
        (
            lambda: RunSpec.from_dict({"candidate": "replay:demo"}),
            """from_dict: candidate = 'replay:demo': write {"candidate": {"model": """,
        ),
        (lambda: RunSpec.from_dict(["smoke"]), "from_dict: give a dict"),  # type: ignore[arg-type]
        (
            lambda: RunSpec.from_layers(()).with_value("sampling.samples", "x"),
            "sampling.samples = 'x': must be a whole number",
        ),
        (
            lambda: RunSpec.from_layers(()).with_value("sampling", 3),
            "sampling = 3: write sampling.KEY=VALUE",
        ),
        (
            lambda: RunSpec(candidate="x/y"),
            """give a dict, RunSpec(candidate={"KEY": VALUE})""",
        ),
        (lambda: RunSpec(candidat={}), 'no such key; did you mean "candidate"?'),
        (lambda: RunSpec("run.toml"), 'RunSpec.read("FILE.toml") for a run file'),
        (lambda: RunSpec.read(["a.toml"]), "['a.toml'] is not a path"),  # type: ignore[arg-type]
    ],
)
def test_what_python_gives_wrong_is_a_user_error(
    make: Callable[[], RunSpec], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert message in str(caught.value)
    assert "pydantic" not in str(caught.value)
