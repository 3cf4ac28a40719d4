"""The report formats of extensions/; each is read by the library that it is for."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from refusal_checks_extensions import mlflow, model_card, trackers, wandb, webhook

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.reports import formats
from refusal_checks.results.run_folder import RunFolder
from tests.report_runs import usual

TEXTS = ("Request ", "tell me about it")
"""Words of every prompt of ``usual``."""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return usual(tmp_path / "20260101-000000Z-1")


def renamed(run: RunFolder, name: str) -> RunFolder:
    """The run, of a candidate with another name."""
    summary = run.summary()
    summary.manifest = summary.manifest.extended(candidate=name, title=name)
    run.write_summary(summary)
    return run


def test_trackers_get_figures_and_facts_and_no_text(run: RunFolder) -> None:
    summary = run.summary()
    figures, facts = trackers.figures(summary), trackers.facts(summary, run)
    assert (
        figures["gates/failed"]
        == sum(each.fails for each in summary.verdicts.values())
        > 0
    )
    for name, verdict in summary.verdicts.items():
        assert figures[f"{name}/figure"] == verdict.estimate.value
        assert figures[f"{name}/upper"] == verdict.estimate.upper
    assert facts["may_ship"] == "No"
    assert not any(text in json.dumps([figures, facts]) for text in TEXTS)


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
        mlflow.write([renamed(run, "ORG/model: 安全")], Path("gates of ORG"))
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
        mlflow.write([run], Path("x"))
    assert "secret" not in str(caught.value)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what wandb keeps."""
    for name, value in {"DIR": tmp_path, "CONFIG_DIR": tmp_path}.items():
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_wandb_has_the_run_offline(run: RunFolder, offline: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: its tests need it")
    wandb.write([run, run], Path("gates"))
    files = list(offline.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    content = files[0].read_bytes()
    assert b"safe-rejection_rate" in content
    assert b"may_ship" in content
    assert not any(text.encode() in content for text in TEXTS)


@pytest.mark.usefixtures("offline")
def test_what_stays_offline_is_not_said_to_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = formats.written("wandb", wandb, Path("gates"))
    assert said == "wandb report kept offline: send it with `wandb sync`"
    monkeypatch.setenv("WANDB_API_KEY", "key")
    assert formats.written("wandb", wandb, Path("gates")) == "wandb report passed on"


@pytest.mark.parametrize("module", [mlflow, wandb])
def test_a_library_that_is_missing_is_named_with_its_remedy(
    module: Any, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("refusal_checks_extensions.trackers.find_spec", lambda _: None)
    for call in (module.check, lambda: module.write([run], Path("x"))):
        with pytest.raises(
            UserError, match=rf'pip install "refusal-checks-extensions\[{name}\]"'
        ):
            call()


@pytest.mark.parametrize("module", [mlflow, wandb])
def test_a_library_that_is_broken_ends_no_session(
    module: Any, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module.__name__.rpartition(".")[2]
    (tmp_path / f"{name}.py").write_text(
        "raise TypeError('Descriptors cannot be created')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for known in [each for each in sys.modules if each.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, known)
    module.check()
    with pytest.raises(DataError, match="Descriptors cannot be created"):
        module.write([run], Path("x"))


def card(path: Path) -> Any:
    from huggingface_hub import ModelCard

    return ModelCard.load(path)


def test_a_model_card_has_each_gate_as_a_result(run: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    model_card.write([renamed(run, "ORG/model")], path)
    found = card(path)
    summary = run.summary()
    assert found.data.model_name == "ORG/model"
    assert len(found.data.eval_results) == len(summary.verdicts)
    results = {each.metric_name: each for each in found.data.eval_results}
    for name, verdict in summary.verdicts.items():
        result = results[name]
        assert result.metric_value == pytest.approx(verdict.estimate.value, abs=1e-6)
        assert result.dataset_type == verdict.gate.benchmark
        assert result.metric_args["n"] == verdict.estimate.n
    index = found.data.to_dict()["model-index"]
    assert index[0]["results"][0]["task"] == {"type": "text-generation"}


def test_a_card_keeps_its_text_and_others_results_and_replaces_its_own(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    path.write_text(
        "---\nlicense: mit\nmodel-index:\n- name: mine\n  results:\n"
        "  - task: {type: text-generation}\n"
        "    dataset: {type: mmlu, name: MMLU}\n    metrics:\n    - {type: acc, value: 0.5}\n---\n"
        "# My model\n\nWords: é 安全\n"
    )
    for _ in range(2):
        model_card.write([run], path)
    found = card(path)
    assert (found.data.license, found.data.model_name) == ("mit", "mine")
    assert [each.dataset_type for each in found.data.eval_results].count("mmlu") == 1
    assert len(found.data.eval_results) == 1 + len(run.summary().verdicts)
    assert found.text.strip().endswith("Words: é 安全")


def test_a_card_that_begins_with_a_byte_order_mark_keeps_its_metadata(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    path.write_text("---\nlicense: mit\n---\n# My model\n", "utf-8-sig")
    model_card.write([run], path)
    assert card(path).data.license == "mit"
    assert path.read_text().count("license: mit") == 1


def test_a_card_tells_nothing_of_machines_and_networks(
    run: RunFolder, tmp_path: Path
) -> None:
    summary = run.summary()
    summary.manifest = summary.manifest.extended(
        candidate="http://10.0.0.5:8000/v1#org/model",
        title="/home/ann/models/org-model",
        judge="/home/ann/models/judge, http://ann:pw@secret-host/v1#judge",
    )
    run.write_summary(summary)
    path = tmp_path / "README.md"
    model_card.write([run], path)
    text = unescape(path.read_text())
    assert "…/judge" in text
    assert not re.search(r"\b(ann|10\.0\.0\.5|secret-host)\b", text)


def test_a_card_that_is_none_or_of_several_models_and_several_runs_are_refused(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "README.md"
    result = (
        "  results:\n  - task: {type: text-generation}\n"
        "    dataset: {type: mmlu, name: MMLU}\n    metrics:\n    - {type: acc, value: 0.5}\n"
    )
    both = f"---\nmodel-index:\n- name: one\n{result}- name: two\n{result}---\n# Both\n"
    bad, why = (
        "repair the card's metadata",
        "keep one model in its model-index: it has 2",
    )
    for text, said in (
        (b"---\n- a list\n---\n", bad),
        (b"---\nmodel-index: 7\n---\n", bad),
        (b"---\na: [\n---\n", bad),
        (b"\xff", bad),
        (both.encode(), why),
    ):
        path.write_bytes(text)
        with pytest.raises(DataError, match=said):
            model_card.write([run], path)
        assert path.read_bytes() == text
    with pytest.raises(DataError, match="one card per model"):
        model_card.write([run, run], path)


class _Chat(BaseHTTPRequestHandler):
    status, seen = 200, list[bytes]()
    server: HTTPServer

    def do_POST(self) -> None:
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.status)
        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def chat(status: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    handler = type("Chat", (_Chat,), {"status": status, "seen": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        seen: list[bytes] = handler.seen  # type: ignore[attr-defined]
        yield f"http://127.0.0.1:{server.server_port}/services/T0/B0/SECRET", seen
        server.shutdown()


def test_a_chat_gets_one_message_without_mentions_or_texts(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat() as (url, seen):
        monkeypatch.setenv(webhook.VARIABLE, url)
        webhook.write([renamed(run, "<!channel> & <@U1>")], Path(url))
    (body,) = seen
    message = json.loads(body)
    assert message["text"].startswith(
        "Refusal checks of &lt;!channel&gt; &amp; &lt;@U1&gt;: No\n"
    )
    assert message["text"].count("•") == min(
        10, sum(v.fails for v in run.summary().verdicts.values())
    )
    assert not any(word in message["text"] for word in TEXTS)
    assert message["mrkdwn"] is False


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_a_chat_that_refuses_is_named_without_its_secret(
    status: int, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat(status) as (url, seen):
        monkeypatch.setenv(webhook.VARIABLE, url)
        with pytest.raises(DataError, match=f"HTTP {status}") as caught:
            webhook.write([run], Path("x"))
    assert "SECRET" not in str(caught.value)
    assert len(seen) == 1
