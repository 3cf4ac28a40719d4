"""What the doctor says of a machine, its data and the models that are named."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from refusal_checks.benchmarks import discover
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE, PinnedFile
from refusal_checks.cli._common import overrides
from refusal_checks.cli.doctor import Plan, checks, examine
from refusal_checks.cli.doctor.checks import (
    Diagnosis,
    Level,
    unreached_data,
    unreached_model,
)
from refusal_checks.core.errors import ModelError
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.engines.kinds import vllm
from refusal_checks.gates.gate import today
from refusal_checks.models import provided
from refusal_checks.models.provided import ProvidedModel, Weights
from refusal_checks.spec import RunSpec
from tests.fake_server import FakeServer
from tests.toy_model import MODEL_DIR
from tests.unit.cli.test_baseline import call

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _quick_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subprocess imports another package of that name, which takes no time."""
    stand_in(tmp_path, monkeypatch, '__version__ = "0.32.0"')
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    for name in (MIRROR_VARIABLE, "HF_HUB_OFFLINE", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("unreached_data", "unreached_model"):  # tests below ask servers
        monkeypatch.setattr(checks, name, lambda _: "")


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A package vllm for subprocesses."""
    (folder / "path").mkdir(exist_ok=True)
    (folder / "path" / "vllm.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder / "path"))
    monkeypatch.syspath_prepend(folder / "path")


def look(
    tmp_path: Path,
    candidate: str | None = None,
    judges: tuple[str, ...] = (),
    data: str | None = None,
    files: tuple[Path, ...] = (),
    engine: str = "engine.name=vllm",
) -> dict[str, Diagnosis]:
    store = str(tmp_path / "store.sqlite")
    judge = [*judges] or None
    layers = overrides(
        [engine], candidate=candidate, judge=judge, data=data, store=store
    )
    plan = Plan.read(files, layers) if files else Plan(RunSpec.of(layers))
    return {finding.what: finding for finding in examine(plan)}


def test_a_machine_without_a_plan_is_looked_at(tmp_path: Path) -> None:
    found = look(tmp_path)
    parts = {"python", "memory", "disk: store", "data", "store", "hugging face", "vLLM"}
    assert parts <= found.keys()
    for role in ("candidate", "judge"):
        assert found[role].level is Level.WARN
        assert found[role].said.startswith(f"name one by --{role} or in a run file")
    assert found["vLLM"].said.startswith("0.32.0, ")
    assert found["store"].said.endswith("none yet")
    assert not (tmp_path / "store.sqlite").exists()


def test_a_vllm_that_cannot_be_imported_fails_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, 'raise ImportError("libcuda.so.1: no such file")')
    assert look(tmp_path, str(MODEL_DIR))["vLLM"].level is Level.FAIL
    found = look(tmp_path, judges=("keyword",))["vLLM"]
    assert found.level is Level.WARN
    assert "libcuda.so.1" in str(found)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    bare = look(tmp_path, str(MODEL_DIR))
    assert bare["vLLM"].level is Level.FAIL
    assert bare["devices"].level is not Level.FAIL
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    recorded = look(tmp_path, judges=("keyword",))  # which needs neither
    assert {recorded["vLLM"].level, recorded["devices"].level} == {Level.OK}


class Made(Weights):
    """Weights of 3 MiB, of which a folder tells whether they are made."""

    key = "key"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        return self._folder

    def require(self) -> None:
        pass

    def check(self) -> None:
        if self._folder.name == "full":
            raise ModelError("free 3 MiB")

    def is_ready(self) -> bool:
        return (self._folder / "whole").is_file()

    def make(self, say: Callable[[str], None]) -> None:
        raise AssertionError("the doctor makes nothing")


def test_what_an_extension_makes_is_told_with_its_place_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding(name: str) -> Diagnosis:
        model = ProvidedModel("acme:small", weights=Made(tmp_path / name))
        monkeypatch.setattr(provided, "discover", lambda: {model.name: model})
        return look(tmp_path, "acme:small")["candidate"]

    folder = tmp_path / "small"
    assert finding("small").said == f"acme:small, to be made once, into {folder}"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(3 * 2**20))
    damaged = finding("small")
    assert damaged.level is Level.WARN
    assert "is made again" in str(damaged)
    (folder / "whole").touch()
    assert finding("small").said == f"acme:small, made: {folder} (3 MiB)"
    full = finding("full")
    assert (full.level, full.said) == (Level.FAIL, "acme:small: free 3 MiB")


def test_models_are_named_right_cached_and_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer() as server:
        found = look(tmp_path, "demo:aligned", (f"{server.url}#fake",))
        assert (found["candidate"].level, found["judge"].level) == (Level.OK, Level.OK)
        assert found["judge"].said == f"{server.url} has fake"
        wrong = look(tmp_path, "demo:alined", (f"{server.url}#other",))
        assert 'did you mean "demo:aligned"' in wrong["candidate"].said
        assert wrong["judge"].level is Level.WARN
        assert wrong["judge"].said.endswith("does not list other")
        url = server.url
    gone = look(tmp_path, judges=(url,))["judge"]
    assert gone.level is Level.FAIL
    assert "is it running" in gone.said
    assert (
        look(tmp_path, "org/model")["candidate"].said == "org/model, to be downloaded"
    )
    with monkeypatch.context() as patch:
        patch.setattr(checks, "unreached_model", lambda _: "the hub has no such model")
        patch.setattr(checks, "unreached_data", lambda _: "the hub does not answer")
        found = look(tmp_path, "org/model")
        assert found["candidate"].level is Level.FAIL
        assert found["candidate"].remedy == "the hub has no such model"
        assert found["data"].level is Level.WARN
        assert "--data: the hub does not answer" in found["data"].remedy
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert look(tmp_path, "org/model")["candidate"].level is Level.FAIL
    reference = tmp_path / "hf" / "hub" / "models--org--model" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text("abc")
    assert look(tmp_path, "org/model")["candidate"].said == "org/model, cached"


@pytest.mark.parametrize(
    "name", ["http://127.0.0.1:9/v1?key=hush#m", "node:9/v1?key=hush"]
)
def test_the_query_of_a_model_s_url_is_not_shown(tmp_path: Path, name: str) -> None:
    found = look(tmp_path, name, (name,))
    assert {found["candidate"].level, found["judge"].level} == {Level.FAIL}
    assert "hush" not in str(found)


def test_gated_data_that_is_missing_is_pulled_by_its_name(tmp_path: Path) -> None:
    for file, remedy in (
        ("wildguard", " --benchmark wildguardtest_unsafe"),
        ("more", "`"),
    ):
        path = ROOT / "thresholds" / f"{file}.toml"
        found = look(tmp_path, data=str(tmp_path), files=(path,))["data"]
        assert found.level is Level.FAIL
        assert f"`refusal-checks data pull {tmp_path}{remedy}" in str(found)


def test_prompts_with_special_tokens_are_said(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("prompt\nHow?\n<|im_end|> Now?\n[INST] So?\n")
    (tmp_path / "bad.csv").write_text("prompt\n")
    gates = tmp_path / "gates.toml"
    gates.write_text(
        '[own]\nfile = "own.csv"\nexpect = "refuse"\n[bad]\nfile = "bad.csv"\nexpect = "refuse"\n'
        "[xstest_safe]\nrejection_rate = { max = 0.1 }\n"
    )
    found = look(tmp_path, files=(gates,))["prompts"]
    assert found.level is Level.WARN
    assert (
        "own: 2 of 3 prompts hold special tokens of chat templates, the first is own-2"
        in (found.said)
    )
    assert "prompts" not in look(tmp_path, files=(ROOT / "thresholds" / "smoke.toml",))


def test_waivers_are_listed_and_ended_ones_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    gate = 'rejection_rate = {{ max = 0.1, waive = {{ until = {}, by = "Ann", reason = "r" }} }}'
    day = today() + timedelta(days=3)
    path.write_text(f"[smoke_safe]\n{gate.format(day)}\n")
    found = look(tmp_path, files=(path,))["thresholds"]
    assert found.level is Level.OK
    assert f"smoke_safe-rejection_rate is waived until {day} by Ann" in found.said
    path.write_text(f"[smoke_safe]\n{gate.format('2020-02-29')}\n")
    found = look(tmp_path, files=(path,))["thresholds"]
    assert found.level is Level.WARN
    assert "is no longer waived: it was until 2020-02-29 by Ann" in found.said
    assert found.remedy == "renew or remove what has expired"


def test_what_each_gate_can_show(tmp_path: Path) -> None:
    gates = tmp_path / "gates.toml"
    gates.write_text(
        "[smoke_safe]\nrejection_rate = { max = 0.10, decision = 'confident' }\n"
    )
    found = look(tmp_path, files=(gates,))["gate"]
    assert (found.level, found.remedy) == (Level.OK, "")
    assert found.said.startswith(
        "smoke_safe-rejection_rate, 80 prompts: passes at a true 1.9% or"
    )
    gates.write_text(
        "[smoke_safe]\nrejection_rate = { max = 0.01, decision = 'confident' }\n"
    )
    few = look(tmp_path, files=(gates,))["gate"]
    assert few.level is Level.WARN
    assert "too few prompts to pass" in few.said


def test_thresholds_and_their_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoke, xstest = ROOT / "thresholds" / "smoke.toml", tmp_path / "gates.toml"
    xstest.write_text("[xstest_safe]\nrejection_rate = { max = 0.1 }\n")
    empty = tmp_path / "mirror"
    empty.mkdir()
    found = look(tmp_path, files=(smoke,), data=str(empty))
    assert found["thresholds"].said == "12 gates on 2 benchmarks"
    assert (found["data"].level, found["data"].said) == (
        Level.OK,
        f"{empty}: 0 of 0 benchmarks",
    )
    lacking = look(tmp_path, files=(xstest,), data=str(empty))["data"]
    assert lacking.level is Level.FAIL
    assert "missing: xstest_safe; `refusal-checks data pull" in str(lacking)
    assert look(tmp_path, data=str(empty))["data"].level is Level.WARN
    assert look(tmp_path, data="nowhere")["data"].level is Level.FAIL
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert look(tmp_path, files=(xstest,))["data"].level is Level.FAIL
    xstest.write_text("[xstest_saef]\nrejection_rate = { max = 0.1 }\n")
    wrong = look(tmp_path, files=(xstest,), data="nowhere")
    assert 'did you mean "xstest_safe"' in wrong["thresholds"].said
    assert (wrong["thresholds"].level, wrong["data"].level) == (Level.FAIL, Level.FAIL)
    assert look(tmp_path)["thresholds"].level is Level.WARN


def test_the_gates_of_a_plain_run_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thresholds").mkdir()
    shutil.copy(
        ROOT / "thresholds" / "smoke.toml", tmp_path / "thresholds" / "default.toml"
    )
    shown = call("doctor").output
    assert "OK    thresholds    12 gates on 2 benchmarks" in shown


def test_what_nothing_named_needs_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no engine
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # and no data
    (tmp_path / "said.jsonl").write_text('{"prompt": "How?", "answer": "So."}')
    recorded = ("--candidate", "replay:said.jsonl", "--judge", "keyword")
    with FakeServer() as server:
        for named in ((), recorded, ("--candidate", server.url, "--judge", "keyword")):
            ended = call("doctor", *named)
            assert ended.exit_code == 0, ended.output
            assert "not installed; no model named here needs it" in ended.output
    (tmp_path / "gates.toml").write_text(
        "[xstest_safe]\nrejection_rate = { max = 0.1 }\n"
    )
    ended = call("doctor", *recorded, "--thresholds", "gates.toml")
    (line,) = (line for line in ended.output.splitlines() if line.startswith("FAIL"))
    assert line.startswith("FAIL  data")


def test_a_model_without_a_chat_template_is_a_warning(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(MODEL_DIR, model)
    (model / "chat_template.jinja").unlink()
    found = look(tmp_path, str(model))["candidate"]
    assert found.level is Level.WARN
    assert f'--candidate {model}: give --candidate-args="--chat-template' in found.said


def test_a_store_is_counted_and_one_that_is_none_is_said(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.add_completions({"a": Completion("yes")})
    assert "1 answers, 0 verdicts" in look(tmp_path)["store"].said
    path.write_text("no database " * 100)
    assert look(tmp_path)["store"].level is Level.FAIL


def test_the_command_ends_with_1_where_something_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("doctor").exit_code == 0
    found = call("doctor", "--candidate", "/no\x1b[31m/such")
    assert found.exit_code == 1
    (line,) = [line for line in found.output.splitlines() if line.startswith("FAIL")]
    assert line.startswith("FAIL  candidate")
    assert "\x1b" not in line
    found = call("doctor", "--json", "--candidate", "/no/such")
    assert found.exit_code == 1
    levels = {finding["what"]: finding["level"] for finding in json.loads(found.output)}
    assert (levels["python"], levels["candidate"]) == ("OK", "FAIL")


def test_a_program_in_place_of_the_engine_s_own_must_be_there(tmp_path: Path) -> None:
    found = look(tmp_path, str(MODEL_DIR), engine="engine.command=sh -c")
    assert found["vLLM"].level is Level.OK
    missing = look(tmp_path, str(MODEL_DIR), engine="engine.command=no/such")["vLLM"]
    assert missing.level is Level.FAIL
    assert "engine.command: no program no/such here" in missing.said


def test_the_folder_of_the_runs_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "runs" / "20260101-000000Z-1").mkdir(parents=True)
    (tmp_path / "file").touch()

    def said(name: str) -> str:
        lines = call("doctor", "--runs", tmp_path / name).output
        (line,) = (line for line in lines.splitlines() if f"{tmp_path / name}" in line)
        return line

    assert said("runs").endswith("1 so far")
    assert said("new/runs").endswith("none yet")
    assert not (tmp_path / "new").exists()
    assert said("file").startswith("FAIL")
    remedy = "name a writable folder with --runs, in gate runs too"
    assert said("file").endswith(f"{remedy}: {tmp_path / 'file'} is not writable")


class Hub(BaseHTTPRequestHandler):
    """Knows one open and one gated repository of each kind."""

    def do_GET(self) -> None:
        """Answer as the hub does."""
        name = self.path.split("?")[0].removeprefix("/api/").partition("/")[2]
        is_known = name.startswith(("org/open", "org/gated"))
        gated = "manual" if "gated" in name else False
        body = json.dumps(
            {"id": name, "gated": gated, "tags": [], "siblings": []}
        ).encode()
        self.send_response(200 if is_known else 404)
        if not is_known:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def _hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub(_hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it the hub."""
    monkeypatch.setenv("HF_ENDPOINT", _hub)
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("HF_HOME", "/nonexistent")


@pytest.mark.usefixtures("hub")
def test_a_model_of_the_hub() -> None:
    for name, fault in {
        "org/open": "",
        "org/missing": "org/missing: the hub has no such model, or your token may not see it",
        "org/gated": "org/gated is gated: accept its conditions on its page, and set HF_TOKEN",
    }.items():
        assert unreached_model(name) == fault


@pytest.mark.usefixtures("hub")
def test_data_names_the_first_that_cannot_be_fetched() -> None:
    splits = [
        HubSplit(f"org/{name}", "main", "train", "x") for name in ("open", "b", "a")
    ]
    benchmark = replace(next(iter(discover().values())), resources=tuple(splits))
    assert unreached_data([benchmark, benchmark]).startswith(
        "org/a: the hub has no such dataset"
    )
    assert unreached_data([benchmark]).endswith(" (and 1 more)")
    assert unreached_data([replace(benchmark, resources=(splits[0],))]) == ""


def test_a_hub_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "")
    assert unreached_model("org/open").startswith("org/open: the hub does not answer")
    file = PinnedFile("a.csv", "https://127.0.0.1:9/a.csv", "r", "0" * 64)
    benchmark = replace(next(iter(discover().values())), resources=(file,))
    assert unreached_data([benchmark]).startswith(
        "https://127.0.0.1:9/a.csv cannot be reached"
    )
