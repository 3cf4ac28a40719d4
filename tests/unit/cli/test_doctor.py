"""What the doctor says of a machine, its data and the models that are named."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

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
from refusal_checks.engines import vllm
from refusal_checks.gates.gate import today
from refusal_checks.models import provided
from refusal_checks.models.provided import ProvidedModel, Weights
from refusal_checks.spec import RunSpec
from tests.fake_server import FakeServer
from tests.toy_model import MODEL_DIR
from tests.unit.cli.test_baseline import call

ROOT = Path(__file__).parents[3]
OK = Level.OK
SOON = today() + timedelta(days=3)


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
    engine: str = "engine.command=",
) -> dict[str, Diagnosis]:
    store = str(tmp_path / "store.sqlite")
    judge = [*judges] or None
    layers = overrides(
        [engine], candidate=candidate, judge=judge, data=data, store=store
    )
    plan = Plan.read(files, layers) if files else Plan(RunSpec.of(layers))
    return {finding.what: finding for finding in examine(plan)}


Told = Callable[..., None]
"""Looks at a plan, and keeps what is said of the parts that are named."""


@pytest.fixture
def told(tmp_path: Path, snapshot: SnapshotAssertion) -> Iterator[Told]:
    """What is said is a golden text as the test ends, without paths, ports and days."""
    lines: list[str] = []

    def tell(*parts: str, **plan: Any) -> None:
        findings = look(tmp_path, **plan)
        lines.extend(str(findings[part]) for part in parts)

    yield tell
    text = "\n".join(lines).replace(str(tmp_path), "TMP").replace(str(SOON), "SOON")
    text = re.sub(r"(127\.0\.0\.1(:|', ))\d+", r"\1PORT", text)
    text = re.sub(r"\d+ benchmarks from", "N benchmarks from", text)
    assert re.sub("Known: .*", "Known: ...", text) == snapshot


def test_a_machine_without_a_plan_is_looked_at(tmp_path: Path, told: Told) -> None:
    told("candidate", "judge", "store", "thresholds")
    parts = {"python", "memory", "disk: store", "data", "hugging face", "vLLM"}
    assert parts <= look(tmp_path).keys()
    assert not (tmp_path / "store.sqlite").exists()


def test_an_engine_fails_where_a_model_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    own: dict[str, Any] = {"candidate": str(MODEL_DIR)}
    rules: dict[str, Any] = {"judges": ("keyword",)}
    assert look(tmp_path, **own)["vLLM"].text.startswith("0.32.0, ")
    told("vLLM", **own, engine="engine.command=no/such")
    assert look(tmp_path, **own, engine="engine.command=sh -c")["vLLM"].level is OK
    stand_in(tmp_path, monkeypatch, 'raise ImportError("libcuda.so.1: no such file")')
    told("vLLM", **own)
    told("vLLM", **rules)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told("vLLM", **own)
    assert look(tmp_path, **own)["devices"].level is not Level.FAIL
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    told("vLLM", "devices", **rules)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    def tell(name: str) -> None:
        model = ProvidedModel("acme:small", weights=Made(tmp_path / name))
        monkeypatch.setattr(provided, "discover", lambda: {model.name: model})
        told("candidate", candidate="acme:small")

    folder = tmp_path / "small"
    tell("small")
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(3 * 2**20))
    tell("small")
    (folder / "whole").touch()
    tell("small")
    tell("full")


def test_models_are_named_right_cached_and_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    with FakeServer() as server:
        url = server.url
        told("judge", candidate="demo:aligned", judges=(f"{url}#fake",))
        assert look(tmp_path, "demo:aligned")["candidate"].level is OK
        told("candidate", "judge", candidate="demo:alined", judges=(f"{url}#other",))
    told("judge", judges=(url,))
    told("candidate", candidate="org/model")
    with monkeypatch.context() as patch:
        patch.setattr(checks, "unreached_model", lambda _: "the hub has no such model")
        patch.setattr(checks, "unreached_data", lambda _: "the hub does not answer")
        told("candidate", "data", candidate="org/model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told("candidate", candidate="org/model")
    reference = tmp_path / "hf" / "hub" / "models--org--model" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text("abc")
    told("candidate", candidate="org/model")
    model = tmp_path / "model"
    shutil.copytree(MODEL_DIR, model)
    (model / "chat_template.jinja").unlink()
    told("candidate", candidate=str(model))


SMOKE = ROOT / "tests" / "e2e" / "smoke.toml"
WAIVED = 'rejection_rate = {{ max = 0.1, waive = {{ until = {}, by = "Ann", reason = "r" }} }}'
SAFE = "[smoke_safe]\nrejection_rate = { max = 0.1 }"
ACCEPTED = 'part = {{ until = {}, by = "Ann", reason = "a trial" }}'
FILES = {
    "thresholds": (
        f"[smoke_safe]\n{WAIVED.format(SOON)}",
        f"[smoke_safe]\n{WAIVED.format('2020-02-29')}",
        "[xstest_saef]\nrejection_rate = { max = 0.1 }",
        f"{SAFE}\n[accept]\n{ACCEPTED.format(SOON)}",
        f"{SAFE}\n[accept]\n{ACCEPTED.format('2020-02-29')}",
    ),
    "prompts": (
        '[own]\nfile = "own.csv"\nexpect = "refuse"\n[bad]\nfile = "bad.csv"\n'
        'expect = "refuse"\n[xstest_safe]\nrejection_rate = { max = 0.1 }',
    ),
    "gate": (
        "[smoke_safe]\nrejection_rate = { max = 0.10, decision = 'confident' }",
        "[smoke_safe]\nrejection_rate = { max = 0.01, decision = 'confident' }",
    ),
    "data": ("[xstest_safe]\nrejection_rate = { max = 0.1 }",),
}


@pytest.mark.parametrize("part", FILES)
def test_what_is_said_of_a_run_file(tmp_path: Path, part: str, told: Told) -> None:
    (tmp_path / "own.csv").write_text("prompt\nHow?\n<|im_end|> Now?\n[INST] So?\n")
    (tmp_path / "bad.csv").write_text("prompt\n")
    file = tmp_path / "gates.toml"
    for text in FILES[part]:
        file.write_text(f"{text}\n")
        told(part, files=(file,), data=str(tmp_path))
    assert "prompts" not in look(tmp_path, files=(SMOKE,))


def test_data_is_looked_for_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    told("thresholds", "data", files=(SMOKE,), data=str(tmp_path))
    assert look(tmp_path, data=str(tmp_path))["data"].level is Level.WARN
    told("data", data="nowhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    file = tmp_path / "gates.toml"
    file.write_text("[xstest_safe]\nrejection_rate = { max = 0.1 }\n")
    told("data", files=(file,))


def test_a_store_is_counted_and_one_that_is_none_is_said(
    tmp_path: Path, told: Told
) -> None:
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.add_completions({"a": Completion("yes")})
    told("store")
    path.write_text("no database " * 100)
    told("store")


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
