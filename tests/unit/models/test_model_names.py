"""One string names a model."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, ModelInfo

from refusal_checks.core.errors import ModelError
from refusal_checks.io.files import forget_files
from refusal_checks.models import identity
from refusal_checks.models.identity import cached_commit, describe_model, model_identity
from refusal_checks.models.model_names import (
    Attached,
    ModelOptions,
    Replay,
    Rule,
    Served,
    parse_candidate,
    parse_judge,
)
from tests.toy_model import MODEL_DIR

PARSERS = pytest.mark.parametrize("parse", [parse_candidate, parse_judge])
Parse = Callable[..., object]


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@PARSERS
def test_a_folder_is_served_by_its_full_path(
    parse: Parse, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model_folder.parent)
    found = parse("checkpoint", ModelOptions(("--dtype", "half"), {"thinking": False}))
    args = ("--dtype", "half")
    assert found == Served(
        "checkpoint", str(model_folder.resolve()), args, {"thinking": False}
    )
    monkeypatch.setenv("HOME", str(model_folder.parent))
    assert parse("~/checkpoint") == Served("~/checkpoint", str(model_folder.resolve()))


@PARSERS
@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-0.5B_x", "a/b.c"])
def test_a_hugging_face_id_is_served_by_its_name(parse: Parse, name: str) -> None:
    assert parse(name, ModelOptions(("--flag",))) == Served(name, name, ("--flag",))


@PARSERS
@pytest.mark.parametrize(
    ("name", "url", "model"),
    [
        (
            "https://gateway.example/a/v1/#org/model",
            "https://gateway.example/a/v1",
            "org/model",
        ),
        ("http://node:8000/v1", "http://node:8000/v1", ""),
        ("http://[::1]:8000/@me/v1#@m#n?", "http://[::1]:8000/@me/v1", "@m#n?"),
    ],
)
def test_a_url_attaches_to_a_server(
    parse: Parse, name: str, url: str, model: str
) -> None:
    assert parse(name, ModelOptions((), {"k": 1})) == Attached(
        name, url, model, {"k": 1}
    )


@PARSERS
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("https://me:hush@node/v1#m", "remove the user and password"),
        ("https://node/v1?version=hush#m", "remove the query"),
        ("node:8000/v1#m", r"write http://node:8000/v1#m \(or https://\): there is no fold"),
        ("node:8000", "write http://node:8000 "),
        ("my-host/v1#m", "write http://my-host/v1#m "),
        ("ftp://host/v1", r"no such folder; name a folder, .* a URL \(http://HOST/v1#MODEL\)"),
        ("http:///v1", "write a URL with a host: http://HOST:PORT"),
        ("{0}", r"config\.json"),
        ("{0}/said.jsonl", "for recorded answers, write replay:"),
    ],
)  # fmt: skip
def test_what_is_no_model_says_what_to_write(
    parse: Parse, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "said.jsonl").touch()
    with pytest.raises(ModelError, match=message) as caught:
        parse(name.format(tmp_path))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("parse", "name", "message"),
    [
        (parse_candidate, "replay:{0}", r"^remove candidate\.args: .* not for replay:"),
        (
            parse_candidate,
            "http://node/v1",
            r"remove candidate\.args: .*http://node/v1",
        ),
        (parse_judge, "http://node/v1", r"remove judge\.args: .*http://node/v1"),
        (parse_judge, "moderation:http://node/v1", r"remove judge\.args"),
    ],
)
def test_only_an_engine_gets_arguments(
    parse: Parse, tmp_path: Path, name: str, message: str
) -> None:
    (said := tmp_path / "said.jsonl").touch()
    with pytest.raises(ModelError, match=message):
        parse(name.format(said), ModelOptions(("--dtype", "half")))


@PARSERS
@pytest.mark.parametrize("options", [ModelOptions(), ModelOptions(("--dtype", "half"))])
@pytest.mark.parametrize(
    "name",
    [
        "https://node/v1?key=hush#m",
        "https://node/v1?key=x'hush y hush",
        "https://node/v1#m?key=hush",
        "http://?key=hush",
        "http://[::1/v1?key=hush",
        "http:/node/v1?key=hush",
        "node:8000/v1?key=hush",
        "replay:http://node/v1?key=hush",
        "demo:aligned?key=hush",
        "org/model@node/v1?key=hush",
    ],
)
def test_no_message_shows_the_query_of_a_url(
    parse: Parse, name: str, options: ModelOptions
) -> None:
    with pytest.raises(ModelError) as caught:
        parse(name, options)
    assert "hush" not in str(caught.value)


LORA = ModelOptions(("--enable-lora", "--lora-modules", "calm=/adapters/calm"))


@PARSERS
def test_an_adapter_is_asked_for_by_its_name_and_a_folder_may_have_an_at_sign(
    parse: Parse, model_folder: Path
) -> None:
    folder = model_folder.rename(model_folder.with_name("model@step-300"))
    for name, path, adapter in (
        ("org/model@calm", "org/model", "calm"),
        ("demo:aligned@calm", str(MODEL_DIR), "calm"),
        (str(folder), str(folder), ""),
        (f"{folder}@calm", str(folder), "calm"),
    ):
        found = parse(name, LORA)
        assert isinstance(found, Served)
        assert (found.name, found.path, found.adapter) == (name, path, adapter)
        assert found.served_name == (adapter or path)
    for name in ("org/model@", "@calm", "no folder@calm"):
        with pytest.raises(ModelError, match="no such folder"):
            parse(name, LORA)
    with pytest.raises(ModelError, match="--enable-lora --lora-modules calm=FOLDER"):
        parse("org/model@calm")


NODE = "moderation:https://node/v1#m"


def test_a_rule_and_a_moderation_endpoint_are_judges() -> None:
    assert parse_judge("keyword") == Rule("keyword")
    endpoint = Attached(NODE, "https://node/v1", "m", moderates=True)
    assert parse_judge(NODE) == endpoint


@pytest.mark.parametrize(
    ("parse", "name", "message"),
    [
        (parse_candidate, "keyword", "use --judge keyword, since this is a judge"),
        (parse_candidate, NODE, "use --judge moderation:"),
        (parse_candidate, "keywrod", "no such folder; name a folder"),
        (parse_candidate, "relpay:a.jsonl", r'did you mean "replay:"\? If not, name a fol'),
        (parse_candidate, "replay:", "write replay:FILE, with a file"),
        (parse_judge, "keywrod", r'; did you mean "keyword"\? If not, name a folder'),
        (parse_judge, "moderaton:http://node/v1", r'did you mean "moderation:"\? If not, name'),
        (parse_judge, "moderation:omni", "write moderation:URL#MODEL, such as"),
        (parse_judge, "moderation:https://me:hush@node/v1", "remove the user and passw"),
        (parse_judge, "replay:a.jsonl", "recorded answers cannot judge"),
    ],
)  # fmt: skip
def test_what_is_a_judge_alone_is_no_candidate_and_what_answers_no_judge(
    parse: Parse, name: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse(name)
    assert "hush" not in str(caught.value)


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


@pytest.mark.parametrize(
    "changes",
    [
        {"model.safetensors": "weightz"},
        {"added.txt": ""},
        {"config.json": "weights", "model.safetensors": "{}"},
        {"sub/other.txt": "x"},
    ],
)
def test_a_changed_added_or_renamed_file_is_another_model(
    folder: Folder, changes: dict[str, str]
) -> None:
    assert local(folder("a", FILES)) == local(folder("c", FILES)), "wherever it lies"
    assert local(folder("a", FILES)) != local(folder("b", FILES | changes))


@pytest.mark.parametrize("changed", [0, 70_000, 199_999])
def test_large_weights_of_one_size_and_time_are_known_by_parts_of_them(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    monkeypatch.setattr(identity, "_SMALL", 100_000)
    found = set()
    for letter in ("a", "b"):
        text = "a" * changed + letter + "a" * (199_999 - changed)
        path = folder(letter, {"model.safetensors": text})
        os.utime(f"{path}/model.safetensors", (0, 0))
        found.add(local(path))
    assert len(found) == 2


def test_arguments_and_template_variables_are_part_of_a_model_and_its_name_is_not(
    folder: Folder,
) -> None:
    path = folder("a", FILES)
    dtypes = local(path, "--dtype", "half"), local(path, "--dtype half")
    personas = local(path, persona="aligned"), local(path, persona="regressed")
    assert len({local(path), *dtypes, *personas}) == 5
    assert model_identity(Served("demo:x", path)) == model_identity(Served("./a", path))


def test_a_chat_template_is_known_by_its_text(folder: Folder, tmp_path: Path) -> None:
    path, template = folder("a", FILES), tmp_path / "chat.jinja"
    found = set()
    for text in ("one", "two"):
        template.write_text(text)
        found.add(local(path, "--chat-template", str(template)))
        found.add(local(path, f"--chat-template={template}"))
    found.add(local(path, "--hf-overrides", "{" * 5000))
    assert len(found) == 5


def test_a_hugging_face_id_is_known_by_the_commit_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert cached_commit("org/model") == "org/model"
    reference = tmp_path / "hub" / "models--org--model" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text("1234\n")
    assert cached_commit("org/model") == "org/model@1234"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "elsewhere"))
    assert cached_commit("org/model") == "org/model@1234"


def test_a_hugging_face_id_is_the_hub_s_latest_commit_though_another_one_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = tmp_path / "models--org--model" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text("cached")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub = {"main": "latest", "v2": "tagged"}

    def model_info(self: HfApi, name: str, *, revision: str, timeout: float) -> Any:
        assert (name, timeout) == ("org/model", 10)
        return ModelInfo(id=name, sha=hub[revision])  # type: ignore[no-untyped-call]

    def version(*args: str) -> str:
        forget_files()
        found: str = describe_model(Served("m", "org/model", args))["version"]
        return found

    monkeypatch.setattr(HfApi, "model_info", model_info)
    assert version() == "org/model@latest"
    assert version("--revision=v2") == "org/model@tagged"
    assert version("--revision", "gone") == "org/model"
    hub.clear()
    assert version() == "org/model@cached"
    forget_files()


def test_a_servers_model_is_known_by_url_name_and_template_variables() -> None:
    model = Attached("n", "http://node/v1", "a")
    others: list[Served | Attached] = [
        replace(model, model="b"),
        replace(model, url="http://other/v1"),
        replace(model, template_kwargs={"thinking": True}),
        Served("n", "http://node/v1"),
    ]
    assert len({model_identity(each) for each in (model, *others)}) == 5
    assert model_identity(replace(model, name="renamed")) == model_identity(model)


def test_an_adapter_is_known_by_its_files(folder: Folder) -> None:
    calm, bold = folder("calm", {"adapter": "one"}), folder("bold", {"adapter": "x"})
    args = ("--enable-lora", "--lora-modules", f"calm={calm}", f"bold={bold}")
    model = Served("m@calm", folder("model", FILES), args, adapter="calm")
    found = [
        model_identity(replace(model, adapter=name)) for name in ("", "calm", "bold")
    ]
    found.append(model_identity(replace(model, reasoning_end="</think>")))
    named = describe_model(model)["adapter"]
    assert named.startswith("calm@sha256:")
    assert named.count("@") == 1, "folders of other adapters are no part of it"
    forget_files()
    folder("calm", {"adapter": "two"})
    assert len({*found, model_identity(model)}) == 5


def test_a_recording_is_named_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    path.write_bytes(b"{}")
    found = describe_model(Replay("x", path))
    assert found["version"] == f"sha256:{hashlib.sha256(b'{}').hexdigest()}"
