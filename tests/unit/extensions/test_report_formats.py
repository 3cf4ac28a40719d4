"""The report formats of extensions/; each is read by the library that it is for."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import ModelCard
from refusal_checks_extensions import mlflow, model_card, trackers, wandb, webhook

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.results.run_folder import RunFolder
from tests.support.report_runs import PLACE, PLACES, WORDS, usual, with_other_facts


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder, of which each test changes a copy."""
    return usual(tmp_path_factory.mktemp("runs") / "20260101-000000Z-1").path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(finished, tmp_path / finished.name)))


def test_trackers_get_figures_and_facts_and_no_text(run: RunFolder) -> None:
    summary = run.summary()
    figures, facts = trackers.figures(summary), trackers.facts(summary, run)
    failed = sum(verdict.fails for verdict in summary.verdicts.values())
    assert figures["gates/failed"] == failed > 0
    for name, verdict in summary.verdicts.items():
        assert figures[f"{name}/figure"] == verdict.estimate.value
        assert figures[f"{name}/upper"] == verdict.estimate.upper
    assert facts["may_ship"] == "No"
    assert not any(text in json.dumps([figures, facts]) for text in WORDS)


def test_mlflow_has_the_run(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(
        "mlflow", reason="mlflow-skinny is not installed: its tests need it"
    )
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for _ in range(2):
        mlflow.write(
            with_other_facts(run, title="ORG/model: 安全"), Path("gates of ORG")
        )
    client = MlflowClient()
    experiment = client.get_experiment_by_name("gates of ORG")
    found = client.search_runs([experiment.experiment_id])
    assert len(found) == 2
    data, gate = found[0].data, "safe-rejection_rate"
    assert data.metrics[f"{gate}/figure"] == run.summary().verdicts[gate].estimate.value
    assert (data.tags["may_ship"], found[0].info.status) == ("No", "FAILED")
    assert found[0].info.run_name == "ORG/model: 安全"
    assert mlflow._named("a-rate-安全 [x]/n") == "a-rate-_5b89_5168 _5bx_5d/n"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DataError, match="MLflow: ") as caught:
        mlflow.write(run, Path("x"))
    assert "secret" not in str(caught.value)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what wandb keeps."""
    for name in ("DIR", "CONFIG_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_wandb_has_the_run_offline(run: RunFolder, offline: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: its tests need it")
    for _ in range(2):
        wandb.write(run, Path("gates"))
    files = list(offline.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    content = files[0].read_bytes()
    assert b"safe-rejection_rate" in content
    assert b"may_ship" in content
    assert not any(text.encode() in content for text in WORDS)


@pytest.mark.parametrize("module", [mlflow, wandb])
def test_a_library_that_is_missing_is_named_with_its_remedy(
    module: Any, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("refusal_checks_extensions.trackers.find_spec", lambda _: None)
    for call in (module.check, lambda name: module.write(run, name)):
        with pytest.raises(
            UserError, match=rf'pip install "refusal-checks-extensions\[{name}\]"'
        ):
            call(Path("x"))


def test_a_model_card_has_each_gate_as_a_result(run: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    model_card.write(with_other_facts(run, title="ORG/model"), path)
    data = ModelCard.load(path).data
    verdicts = run.summary().verdicts
    assert data.model_name == "ORG/model"
    results = {result.metric_name: result for result in data.eval_results}
    assert results.keys() == verdicts.keys()
    for name, verdict in verdicts.items():
        result = results[name]
        assert result.metric_value == pytest.approx(verdict.estimate.value, abs=1e-6)
        assert result.dataset_type == verdict.gate.benchmark
        assert result.metric_args["n"] == verdict.estimate.n
        assert result.task_type == "text-generation"


OTHERS = """\
  results:
  - task: {type: text-generation}
    dataset: {type: mmlu, name: MMLU}
    metrics:
    - {type: acc, value: 0.5}
"""


def test_a_card_keeps_its_text_and_others_results_and_replaces_its_own(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    head = f"license: mit\nmodel-index:\n- name: mine\n{OTHERS}"
    path.write_text(f"---\n{head}---\n# My model\n\nWords: é 安全\n", "utf-8-sig")
    for _ in range(2):
        model_card.write(run, path)
    card = ModelCard.load(path)
    assert (card.data.license, card.data.model_name) == ("mit", "mine")
    datasets = [result.dataset_type for result in card.data.eval_results]
    assert datasets.count("mmlu") == 1
    assert len(datasets) == 1 + len(run.summary().verdicts)
    assert card.text.strip().endswith("Words: é 安全")


def test_a_card_tells_nothing_of_machines_and_networks(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    model_card.write(with_other_facts(run, **PLACES), path)
    text = unescape(path.read_text())
    assert "…/judge" in text
    assert not PLACE.search(text)


def test_a_card_that_is_none_or_of_several_models_is_refused(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    both = f"---\nmodel-index:\n- name: one\n{OTHERS}- name: two\n{OTHERS}---\n"
    for text, said in {
        b"---\nmodel-index: 7\n---\n": "repair the card's metadata",
        b"---\na: [\n---\n": "repair the card's metadata",
        b"\xff": "repair the card's metadata",
        both.encode(): "keep one model in its model-index: it has 2",
    }.items():
        path.write_bytes(text)
        with pytest.raises(DataError, match=said):
            model_card.write(run, path)
        assert path.read_bytes() == text


@contextmanager
def chat(status: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """A chat's URL, and the messages that it gets."""
    seen: list[bytes] = []

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Chat) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/services/T0/B0/SECRET", seen
        server.shutdown()


def test_a_chat_gets_one_message_without_mentions_or_texts(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat() as (url, seen):
        monkeypatch.setenv("CHAT", url)
        webhook.write(with_other_facts(run, title="<!channel> & <@U1>"), Path("CHAT"))
    (body,) = seen
    message = json.loads(body)
    text = message["text"]
    assert text.startswith("Refusal checks of &lt;!channel&gt; &amp; &lt;@U1&gt;: No\n")
    failed = sum(verdict.fails for verdict in run.summary().verdicts.values())
    assert text.count("•") == min(10, failed)
    assert not any(word in text for word in WORDS)
    assert message["mrkdwn"] is False


@pytest.mark.parametrize("status", [302, 500])
def test_a_chat_that_refuses_is_named_without_its_secret(
    status: int, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat(status) as (url, seen):
        monkeypatch.setenv("CHAT", url)
        with pytest.raises(DataError, match=f"HTTP {status}") as caught:
            webhook.write(run, Path("CHAT"))
    assert "SECRET" not in str(caught.value)
    assert len(seen) == 1
