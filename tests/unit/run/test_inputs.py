"""What a run is told, made from its spec: names of candidates, judges, engines, folders."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from refusal_checks import RunSpec
from refusal_checks.core.errors import UserError
from refusal_checks.models.identity import describe_model, model_identity
from refusal_checks.models.model_names import Served
from refusal_checks.run.inputs import Folders, choose_folders, read_inputs
from refusal_checks.run.named_models import read_candidate, read_judges
from tests.toy_model import MODEL_DIR


def spec_of(**values: object) -> RunSpec:
    """A run of the demo models, with these keys: ``judge_samples`` is ``judge.samples``."""
    spec = RunSpec.read("smoke")
    for name, value in {
        "candidate_model": "demo:aligned",
        "judge_model": "keyword",
        **values,
    }.items():
        spec = spec.with_value(name.replace("_", ".", 1), value)
    return spec


@pytest.mark.parametrize(
    ("written", "name"),
    [("/data/xstest/b/", "b"), ("http://x/v1#m", "m"), ("/", "/")],
)
def test_a_candidate_is_named_by_the_end_of_its_path(written: str, name: str) -> None:
    assert spec_of(candidate_model=written).candidate.title == name
    named = spec_of(candidate_model=written, candidate_name="one")
    assert named.candidate.title == "one"


def test_several_candidates_are_told_how_to_run() -> None:
    with pytest.raises(
        UserError, match=r"name one model.*for model in A B; do refusal"
    ):
        spec_of(candidate_model=["org/a", "org/b"])


def test_each_run_reads_the_files_of_a_model_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training may go on between two runs of one process."""
    monkeypatch.chdir(tmp_path)
    model = shutil.copytree(MODEL_DIR, tmp_path / "model")
    spec = spec_of(candidate_model=str(model))
    identities = set()
    for text in ("one", "two"):
        (model / "generation_config.json").write_text(text)
        identities.add(
            model_identity(read_inputs(spec, choose_folders(spec)).candidate)
        )
    assert len(identities) == 2


def test_a_program_replaces_that_of_vllm() -> None:
    program = "'/a fork/python' -m server"
    spec = spec_of(judge_model="demo:writer", engine_command=program)
    (judge,) = read_judges(spec)
    assert isinstance(judge.model, Served)
    assert judge.model.program == ("/a fork/python", "-m", "server")


TWO = ["http://a/v1#m", "http://b/v1#m"]


@pytest.mark.parametrize(
    ("written", "variables"),
    [({"a": 1}, [{"a": 1}, {"a": 1}]), ([{"a": 1}, {}], [{"a": 1}, {}])],
)
def test_a_key_of_several_models_is_for_all_or_for_each(
    written: object, variables: list[object]
) -> None:
    spec = spec_of(judge_model=TWO, judge_template_variables=written)
    read = [
        describe_model(judge.model)["template_kwargs"] for judge in read_judges(spec)
    ]
    assert read == variables
    one = spec_of(candidate_model=TWO[0], candidate_template_variables={"a": 1})
    assert describe_model(read_candidate(one))["template_kwargs"] == {"a": 1}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"judge_model": []},
            "--judge missing: name the model under test and its judge, in [candidate] and",
        ),
        (
            {"store_only": True, "store_fresh": True},
            "give store.only = True or store.fresh = True, not both",
        ),
        ({"store_file": "."}, "store.file = '.': name a file: "),
        ({"engine_command": "serve it"}, "leave it out: no model of this run is st"),
        (
            {"judge_model": TWO, "judge_args": ["", "", ""]},
            "3 values for 2 --judge: give one for all judges",
        ),
        (
            {"candidate_model": "org/model", "candidate_args": "dtype=float32"},
            "candidate.args = 'dtype=float32': write --NAME=VALUE: 'dtype=float32' is neither an "
            "option of the engine nor the value of one",
        ),
        (
            {"candidate_model": "org/model", "candidate_args": "--seed=1 2"},
            "'2' is neither an option",
        ),
        (
            {"judge_model": TWO, "judge_args": ["", "x"]},
            "'x' is neither an option",
        ),
        (
            {"candidate_model": "openai/gpt-5"},
            "candidate.model = 'openai/gpt-5': write https://api.openai.com/v1#gpt-5: its weights "
            "are not public, so no engine can load it",
        ),
        (
            {"judge_model": [TWO[0], TWO[0]]},
            "with the same settings, it would count twice",
        ),
        (
            {"judge_temperature": 0.6, "judge_samples": 3},
            "judge.samples = 3: leave it out, or name a model with --judge: keyword gives the "
            "same verdict every time",
        ),
        (
            {"recording_partial": True},
            "leave it out, or name a file with --candidate=replay:FILE",
        ),
        (
            {"baseline_path": "none"},
            "baseline.path = 'none': name the folder that",
        ),
        ({"sampling_system_prompt_file": "none.txt"}, "system_prompt_file none.txt: "),
        (
            {"engine_placement": "turns", "candidate_devices": "0"},
            "candidate.devices = '0': leave it out, or use --set engine.placement=auto: engine.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    values: Mapping[str, object],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = spec_of(**{"candidate_model": "http://here/v1#m", **values})
    with pytest.raises(UserError) as caught:
        read_inputs(spec, choose_folders(spec))
    assert says in str(caught.value)


def test_the_folders_of_a_spec_win_over_those_of_the_caller_and_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REFUSAL_CHECKS_RUNS", raising=False)
    kept = choose_folders(spec_of())
    assert kept == Folders(
        tmp_path / ".refusal-checks", tmp_path / ".refusal-checks" / "runs"
    )
    monkeypatch.setenv("REFUSAL_CHECKS_RUNS", "variable")
    assert choose_folders(spec_of()).runs == tmp_path / "variable"
    assert (
        choose_folders(spec_of(), tmp_path / "own", tmp_path / "given").runs
        == tmp_path / "given"
    )
    spec = spec_of(reports_runs="said")
    assert (
        choose_folders(spec, tmp_path / "own", tmp_path / "given").runs
        == tmp_path / "said"
    )
