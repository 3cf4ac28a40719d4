"""A model without a chat template is said before its engine has loaded it."""

import json
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.engines.model_requirements import (
    missing_template,
    require_files,
    require_template,
)
from refusal_checks.models.model_names import Served
from tests.toy_model import MODEL_DIR

BARE: dict[str, Any] = {"tokenizer_config": {"a": 1}}


def folder(path: Path, **files: Any) -> Path:
    """A model's folder with these files; what is no text is written as JSON."""
    path.mkdir(parents=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        suffix = "jinja" if name == "chat_template" else "json"
        (path / f"{name}.{suffix}").write_text(text)
    return path


def said(path: Path, *args: str, **settings: Any) -> str:
    return missing_template(Served("M", str(path), args, **settings), "--candidate")


def test_a_folder_without_a_template_is_refused_with_the_remedy(tmp_path: Path) -> None:
    bare = folder(tmp_path / "bare", **BARE)
    problem = (
        '--candidate M: give --set candidate.args="--chat-template FILE": its tokenizer has no '
        "chat template, so the engine would refuse every conversation"
    )
    assert said(bare) == problem
    for args in (("--chat-template", "x.jinja"), ("--tokenizer=ORG/OTHER",)):
        assert said(bare, *args) == ""
    with pytest.raises(ModelError) as caught:
        require_template(Served("M", str(bare)), "--candidate")
    assert str(caught.value) == problem
    container = Served("M", str(bare), program=("docker",))
    assert require_template(container, "--candidate") == problem


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": {"chat_template": "{{ messages }}"}},
        {**BARE, "chat_template": "{{ messages }}"},
        {**BARE, "tekken": {}},
        {**BARE, "processor_config": {"chat_template": "{{ messages }}"}},
        {**BARE, "config": {"architectures": ["BertForSequenceClassification"]}},
        {"tokenizer_config": "{broken"},
        {},  # nothing tells
    ],
)
def test_nothing_is_said_of_a_model_that_has_one_or_needs_none(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    assert said(folder(tmp_path / "m", **files)) == ""
    assert said(MODEL_DIR) == ""


def test_of_the_hub_only_the_cache_is_looked_at(tmp_path: Path) -> None:
    assert said(Path("org/never-seen")) == ""
    home = tmp_path / "cache" / "models--org--base"
    folder(home / "snapshots" / "abc", **BARE)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("abc")
    model = Served("org/base", "org/base", ("--download-dir", str(tmp_path / "cache")))
    assert require_template(model, "--judge").startswith(
        '--judge org/base: give --set judge.args="--chat-template FILE"'
    )


def test_a_model_of_which_nothing_is_here_is_looked_up_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM would say it a minute later. Folders and other programs' names are not looked up."""
    asked: list[str] = []

    def refuse(self: object, name: str, **how: object) -> None:
        asked.append(name)
        raise ConnectionError("[Errno -2] Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    said: list[str] = []
    require_files(Served("M", str(tmp_path)), "--candidate", said.append)
    require_files(Served("a/b", "a/b", program=("docker",)), "--candidate", said.append)
    assert not said
    with pytest.raises(ModelError, match="--candidate a/b: connect this machine to"):
        require_files(Served("a/b", "a/b"), "--candidate", said.append)
    assert said == ["looking up a/b on the Hugging Face hub"]
    assert asked == ["a/b"]
