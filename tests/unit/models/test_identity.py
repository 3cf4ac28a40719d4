"""A model's part of a content key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.models import spec
from refusal_checks.models.spec import Attached, Served, describe, model_identity

Folder = Callable[..., str]

FILES = {"config.json": "{}", "model.safetensors": "weights", "sub/extra.txt": "x"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A new folder with these files."""

    def make(name: str, files: dict[str, str]) -> str:
        for path, text in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return str(tmp_path / name)

    return make


def local(path: str, *args: str, **kwargs: object) -> str:
    return model_identity(Served(path, path, args, kwargs))


def test_a_folder_is_known_by_its_content_wherever_it_lies(folder: Folder) -> None:
    assert local(folder("a", FILES)) == local(folder("b", FILES))


@pytest.mark.parametrize(
    "files",
    [
        {**FILES, "model.safetensors": "weightz"},
        {**FILES, "added.txt": ""},
        {"config.json": "{}", "model.safetensors": "weights"},
        {"config.json": "weights", "model.safetensors": "{}", "sub/extra.txt": "x"},
        {"config.json": "{}", "model.safetensors": "weights", "sub/other.txt": "x"},
        {"config.json": "{}", "model.safetensors": "weights", "extra.txt": "x"},
    ],
)
def test_a_changed_added_missing_or_renamed_file_is_another_model(
    folder: Folder, files: dict[str, str]
) -> None:
    assert local(folder("a", FILES)) != local(folder("b", files))


def test_arguments_and_template_variables_are_part_of_a_model(folder: Folder) -> None:
    path = folder("a", FILES)
    identities = {
        local(path),
        local(path, "--dtype", "half"),
        local(path, "--dtype half"),
        local(path, persona="aligned"),
        local(path, persona="regressed"),
    }
    assert len(identities) == 5


def test_the_name_that_the_user_wrote_is_no_part_of_a_model(folder: Folder) -> None:
    path = folder("a", FILES)
    assert model_identity(Served("demo:x", path)) == model_identity(Served("./a", path))


def test_a_hugging_face_id_is_known_by_the_commit_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    before = local("org/model")
    reference = tmp_path / "hub" / "models--org--model" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text("1234\n")
    first = local("org/model")
    reference.write_text("5678")
    assert len({before, first, local("org/model"), local("org/other")}) == 4
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "elsewhere"))
    reference.write_text("1234")
    assert local("org/model") == first


def test_a_servers_model_is_known_by_url_name_and_template_variables() -> None:
    models = [
        Attached("n", "http://node/v1", "a"),
        Attached("n", "http://node/v1", "b"),
        Attached("n", "http://other/v1", "a"),
        Attached("n", "http://node/v1", "a", {"thinking": True}),
    ]
    identities = [model_identity(model) for model in models]
    assert len(set(identities)) == 4
    assert model_identity(Attached("renamed", "http://node/v1", "a")) == identities[0]


def test_a_served_and_an_attached_model_of_one_name_differ() -> None:
    served, attached = Served("m", "http://node/v1"), Attached("m", "http://node/v1", "")
    assert model_identity(served) != model_identity(attached)


def test_an_adapter_is_known_by_its_files(folder: Folder, tmp_path: Path) -> None:
    adapter = tmp_path / "calm"
    adapter.mkdir()
    weights = adapter / "adapter_model.safetensors"
    weights.write_bytes(b"one")
    args = ("--enable-lora", "--lora-modules", f"calm={adapter}", f"bold={tmp_path / 'bold'}")
    model = Served("m@calm", folder("model", FILES), args, adapter="calm")
    found = [model_identity(replace(model, adapter=name)) for name in ("", "calm", "bold")]
    assert len(set(found)) == 3
    assert describe(model)["adapter"].startswith("calm@sha256:")
    spec._fingerprint.cache_clear()
    weights.write_bytes(b"two")
    assert model_identity(model) != found[1]
    assert model_identity(replace(model, reasoning_end="</think>")) != model_identity(model)
