"""What a model's files need that its engine has to be told."""

import json
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import needs
from refusal_checks.models.names import Served
from tests.toy_model import MODEL_DIR

OWN_CODE = {
    "model_type": "brand_new",
    "auto_map": {"AutoConfig": "configuration_new.NewConfig"},
}


@pytest.fixture(autouse=True)
def _engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that list a few types of models in their source files."""
    package = tmp_path / "path" / "listing"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "configurations.py").write_text('[("deepseek_v3", "DeepseekV3Config")]')
    (package / "templates.py").write_text('{"deepseek_ocr": "template.jinja"}')
    monkeypatch.syspath_prepend(tmp_path / "path")
    here = {
        "vllm": ("listing/configurations.py",),
        "transformers": ("listing/configurations.py",),
    }
    monkeypatch.setattr(needs, "_CONFIGURATIONS", here)
    templates = {"vllm": ("listing/templates.py",), "transformers": ()}
    monkeypatch.setattr(needs, "_TEMPLATES", templates)


def folder(path: Path, **files: Any) -> Path:
    """A model's folder with these files; what is no text is written as JSON."""
    path.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        suffix = "jinja" if name == "chat_template" else "json"
        (path / f"{name}.{suffix}").write_text(text)
    return path


def said(path: Path, *args: str, **settings: Any) -> list[str]:
    model = Served("M", str(path), args, **settings)
    return [need.said for need in needs.needs(model, "--candidate")]


def test_code_of_its_own_is_needed_where_the_engine_does_not_know_the_model(
    tmp_path: Path,
) -> None:
    own = folder(tmp_path / "own", config=OWN_CODE)
    (line,) = said(own)
    assert line.startswith(
        '--candidate M: give --candidate-args="--trust-remote-code" if you trust'
    )
    assert line.endswith("the engine has no model of the type brand_new")
    for args in (
        ("--trust-remote-code",),
        ("--trust_remote_code",),
        ("--config=vllm.yaml",),
    ):
        assert said(own, *args) == []
    with pytest.raises(ModelError, match="--trust-remote-code"):
        needs.require_none(Served("M", str(own)), "--candidate")
    known = folder(tmp_path / "known", config={**OWN_CODE, "model_type": "deepseek_v3"})
    assert said(known) == []
    part = folder(tmp_path / "part", config={**OWN_CODE, "model_type": "deepseek"})
    assert len(said(part)) == 1, "it is not deepseek_v3"


def test_a_template_is_needed_where_the_tokenizer_and_the_engine_have_none(
    tmp_path: Path,
) -> None:
    bare = folder(
        tmp_path / "bare", config={"model_type": "llama"}, tokenizer_config={"a": 1}
    )
    assert said(bare) == [
        '--candidate M: give --candidate-args="--chat-template FILE": its tokenizer has no chat '
        "template, so the engine would refuse every conversation"
    ]
    assert (
        "put a chat_template.jinja beside its tokenizer"
        in said(bare, engine="transformers")[0]
    )
    for args in (("--chat-template", "x.jinja"), ("--tokenizer=ORG/OTHER",)):
        assert said(bare, *args) == []
    architectures = ["BertForSequenceClassification"]
    nothing_lacks: list[dict[str, Any]] = [
        {"tokenizer_config": {"chat_template": "{{ messages }}"}},
        {"tokenizer_config": {"a": 1}, "chat_template": "{{ messages }}"},
        {"tokenizer_config": {"a": 1}, "tekken": {}},
        {
            "tokenizer_config": {"a": 1},
            "processor_config": {"chat_template": "{{ messages }}"},
        },
        {"tokenizer_config": {"a": 1}, "config": {"model_type": "deepseek_ocr"}},
        {"tokenizer_config": {"a": 1}, "config": {"architectures": architectures}},
        {"tokenizer_config": "{broken"},
        {},  # nothing tells
    ]
    for number, files in enumerate(nothing_lacks):
        assert said(folder(tmp_path / str(number), **files)) == [], files
    assert said(MODEL_DIR) == []


def test_what_cannot_be_known_is_said_and_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folder(tmp_path / "own", config=OWN_CODE, tokenizer_config={"a": 1})
    container = Served("M", str(own), program=("docker",))
    assert len(needs.require_none(container, "--candidate")) == 2
    monkeypatch.setattr(needs, "_CONFIGURATIONS", {"vllm": ("no_such_package/a.py",)})
    monkeypatch.setattr(needs, "_TEMPLATES", {"vllm": ("no_such_package/a.py",)})
    assert len(needs.require_none(Served("M", str(own)), "--candidate")) == 2


def test_of_the_hub_only_the_cache_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(Path("org/never-seen")) == []
    snapshot = tmp_path / "cache" / "models--org--base" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    folder(snapshot, config={"model_type": "llama"}, tokenizer_config={"a": 1})
    reference = tmp_path / "cache" / "models--org--base" / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("abc")
    model = Served("org/base", "org/base", ("--download-dir", str(tmp_path / "cache")))
    (line,) = needs.require_none(model, "--judge")  # its template may not be cached yet
    assert line.startswith('--judge org/base: give --judge-args="--chat-template FILE"')
