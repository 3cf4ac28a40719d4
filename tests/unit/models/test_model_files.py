"""The special tokens that a model's own files declare."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from refusal_checks.models.model_files import reasons
from refusal_checks.models.names import Attached, Model, Rule, Served
from refusal_checks.models.token_files import special_tokens
from refusal_checks.models.weights import _on_hub, weights_gib

FILES: Mapping[str, Any] = {
    "tokenizer.json": {
        "added_tokens": [{"content": "@@turn@@", "special": True, "id": 1}]
    },
    "tokenizer_config.json": {
        "added_tokens_decoder": {"7": {"content": "@@turn@@", "special": True}},
        "model_max_length": 4096,
    },
    "special_tokens_map.json": {
        "eos_token": {"content": "@@turn@@"},
        "unk_token": "@@unk@@",
    },
    "added_tokens.json": {"@@turn@@": 32000},
    "tekken.json": {
        "config": {},
        "special_tokens": [{"rank": 0, "token_str": "@@turn@@"}],
    },
    "chat_template.json": {"chat_template": "{{ '[TURN-x]' }}{{ '@@' }}<@@turn@@>"},
}


def served(folder: Path, *args: str) -> Served:
    return Served("judge", str(folder), args)


@pytest.mark.parametrize("name", FILES)
def test_each_kind_of_file_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps(FILES[name]), encoding="utf-8")
    found = special_tokens(served(tmp_path))
    assert found.count("<@@turn@@>") == 1
    assert found.count("words model_max_length config eos_token 4096") == 0


@pytest.mark.parametrize(
    ("template", "marker"),
    [
        (
            "{% for m in messages %}{{ '<x ' }}### Own:\n{{ m.content }}{% endfor %}",
            "### Own:",
        ),
        ('{{ "### Own:" }}', "### Own:"),
        ("{#- <not-this> -#}{{ bos_token }}### Own:", "### Own:"),
        # Whatever is left open.
        ("it's {{ '<own-x>' }}", "<own-x>"),
        ("{# nothing ends this <own-x>", "<own-x>"),
        ("{%- if a %}<own-x>{% endif", "<own-x>"),
    ],
)
def test_a_template_s_own_markers_count(
    tmp_path: Path, template: str, marker: str | None
) -> None:
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    found = special_tokens(served(tmp_path))
    assert found.count(f"Yes.\n{marker}\nSay compliance.") == int(marker is not None)
    assert found.count("<not-this> messages ### Other") == 0


def test_another_tokenizer_a_template_and_adapters_are_read_too(tmp_path: Path) -> None:
    for name in ("model", "other", "adapter"):
        (tmp_path / name).mkdir()
        tokens = {"added_tokens": [{"content": f"@@{name}@@"}]}
        (tmp_path / name / "tokenizer.json").write_text(
            json.dumps(tokens), encoding="utf-8"
        )
    (tmp_path / "chat.jinja").write_text("[turn_of_x]", encoding="utf-8")
    args = [
        "--tokenizer",
        str(tmp_path / "other"),
        f"--chat-template={tmp_path / 'chat.jinja'}",
    ]
    found = special_tokens(
        served(tmp_path / "model", *args, "--lora-modules", f"x={tmp_path / 'adapter'}")
    )
    assert found.count("@@model@@ @@other@@ @@adapter@@ [turn_of_x]") == 4


@pytest.mark.parametrize(
    "content",
    ["[]", "[" * 100_000, '{"added_tokens": 7}', "\x00"],
)
def test_files_that_cannot_be_read_declare_nothing(
    tmp_path: Path, content: str
) -> None:
    for name in (*FILES, "chat_template.jinja"):
        (tmp_path / name).write_text(content, encoding="utf-8")
    args = ("--chat-template", "x" * 5000, "--tokenizer", "no such/model id", "--x=\0")
    assert special_tokens(served(tmp_path, *args)).count("<|im_end|> words") == 1


def test_a_hugging_face_id_is_read_from_the_cache_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refusal_checks.models.token_files.RETRY", 0.0)
    model = Served("org/judge", "org/judge", ("--download-dir", str(tmp_path)))
    found = special_tokens(model)
    assert found.count("@@turn@@") == 0
    home = tmp_path / "models--org--judge"
    (home / "snapshots" / "c0").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("c0", encoding="utf-8")
    text = json.dumps(FILES["tokenizer.json"])
    (home / "snapshots" / "c0" / "tokenizer.json").write_text(text, encoding="utf-8")
    assert found.count("@@turn@@") == 1


def sized(folder: Path, **files: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, mebibytes in files.items():
        with (folder / name.replace("_dot_", ".")).open("wb") as file:
            file.truncate(mebibytes * 2**20)
    return str(folder)


def test_weights_are_the_files_of_one_format(tmp_path: Path) -> None:
    assert weights_gib(sized(tmp_path / "none", config_dot_json=1)) is None
    one = sized(
        tmp_path / "one", model_dot_safetensors=512, consolidated_dot_safetensors=512
    )
    assert weights_gib(one) == 0.5
    assert weights_gib(sized(tmp_path / "two", a_dot_bin=512, b_dot_bin=512)) == 1.0
    shards = {f"model-0000{n}-of-00002_dot_safetensors": 256 for n in (1, 2)}
    assert weights_gib(sized(tmp_path / "three", **shards, old_dot_bin=99)) == 0.5


def test_an_index_tells_the_size_of_files_that_are_still_missing(
    tmp_path: Path,
) -> None:
    folder = sized(tmp_path, model_dot_safetensors=1)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 3 * 2**30}}))
    assert weights_gib(folder) == 3.0
    index.write_text("{}")
    assert weights_gib(folder) == 1 / 1024


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(cache: Path, **files: int) -> str:
    """Put a model ``org/name`` into a cache of the hub; the cache's folder."""
    repository = cache / "models--org--name"
    sized(repository / "snapshots" / COMMIT, config_dot_json=0, **files)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return str(cache)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What a hub answers, by the path that it is asked for."""
    answers: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *args: object) -> None: ...

    _on_hub.cache_clear()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield answers
        server.shutdown()
        thread.join()
    _on_hub.cache_clear()


def listed(**files: int) -> dict[str, object]:
    """A model as the hub lists it, with files of so many MiB."""
    names = {
        name.replace("_dot_", ".").replace("_in_", "/"): files[name] for name in files
    }
    siblings = [
        {"rfilename": name, "size": size * 2**20} for name, size in names.items()
    ]
    return {"id": "org/name", "siblings": siblings}


@pytest.mark.usefixtures("hub")
def test_weights_in_the_hub_s_cache(tmp_path: Path) -> None:
    cache = cached(tmp_path, model_dot_safetensors=512)
    assert weights_gib("org/name", cache=cache) == 0.5
    assert weights_gib("org/name", COMMIT, cache) == 0.5
    assert weights_gib("org/other", cache=cache) is None
    assert weights_gib("not an id", cache=cache) is None


def test_weights_that_are_not_here_yet_are_as_large_as_the_hub_says(
    tmp_path: Path, hub: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub["/api/models/org/name?blobs=true"] = listed(
        model_dot_safetensors=512, model_dot_bin=99, original_in_a_dot_safetensors=99
    )
    hub["/api/models/org/name/revision/v2?blobs=true"] = listed(model_dot_bin=256)
    cache = cached(tmp_path)  # its configuration alone
    assert weights_gib("org/name", cache=cache) == 0.5
    assert weights_gib("org/name", "v2", cache) == 0.25
    assert weights_gib("org/gone", cache=cache) is None
    _on_hub.cache_clear()
    monkeypatch.setattr(
        constants, "ENDPOINT", "http://127.0.0.1:9"
    )  # where nobody listens
    assert weights_gib("org/name", cache=cache) is None


OPEN_WEIGHTS, OWN = "openai/gpt-oss-20b", "acme/judge"


@pytest.mark.parametrize(
    ("model", "does"),
    [
        (Served("j", OWN), False),
        (Served("j", OPEN_WEIGHTS), True),
        (Served("j", "Qwen/QwQ-32B"), True),
        (Served("j", "Qwen/Qwen3-30B-A3B-Thinking-2507"), True),
        (Served("j", "Qwen/Qwen3-30B-A3B-Instruct-2507"), False),
        (Served("j", OWN, ("--reasoning-parser", "qwen3")), True),
        (Served("j", OWN, ("--reasoning-parser=qwen3",)), True),
        (Served("j", OWN, reasoning_end="</think>"), True),
        (Served("j", OWN, template_kwargs={"enable_thinking": True}), True),
        (Served("j", OWN, template_kwargs={"reasoning_effort": "low"}), True),
        (
            Served("j", OPEN_WEIGHTS, template_kwargs={"reasoning_effort": "none"}),
            False,
        ),
        # What the user says of this model wins.
        (
            Served("j", OWN, ("--reasoning-parser", "x"), {"enable_thinking": False}),
            False,
        ),
        (Attached("j", "http://h/v1", "gpt-oss-120b"), True),
        (Attached("j", "http://gpt-oss.example/v1", "small"), False),
        (Attached("j", "http://h/v1", "small", reasoning_end="</think>"), True),
        (Rule("keyword"), False),
    ],
    ids=str,
)
def test_whether_a_model_reasons_is_known_by_how_it_is_asked_and_by_its_name(
    model: Model, does: bool
) -> None:
    assert reasons(model) is does
