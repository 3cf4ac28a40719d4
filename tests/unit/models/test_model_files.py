"""What a model's own files say of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, ModelInfo

from refusal_checks.core.errors import ModelError
from refusal_checks.models.model_files import (
    ClassifierConfig,
    classifier_config,
    writes_reasoning,
)
from refusal_checks.models.model_names import Attached, Model, Rule, Served
from refusal_checks.models.weights import _hub_bytes, weights_gib


def served(folder: Path, *args: str) -> Served:
    return Served("judge", str(folder), args)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(cache: Path, **files: int) -> Path:
    """Put a model ``org/name`` into a cache of the hub; its folder there."""
    repository = cache / "models--org--name"
    folder = repository / "snapshots" / COMMIT
    sized(folder, config_dot_json=0, **files)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return folder


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
    # Variants, and what training left: an engine holds neither.
    variants = {"model_dot_safetensors": 512, "model_dot_fp16_dot_safetensors": 256}
    assert weights_gib(sized(tmp_path / "four", **variants)) == 0.5
    trained = {"optimizer_dot_bin": 512, "scheduler_dot_pt": 1}
    shards = {f"pytorch_model-{n}_dot_bin": 256 for n in (1, 2)}
    assert weights_gib(sized(tmp_path / "five", **shards, **trained)) == 0.5


Listing = dict[tuple[str, str | None], dict[str, int]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listing]:
    """The files that the hub lists for models by revision, with their sizes in MiB."""
    listing: Listing = {}

    def model_info(
        api: HfApi, model: str, revision: str | None, **options: Any
    ) -> ModelInfo:
        assert options["files_metadata"], "else the hub tells no sizes"
        files = [
            {"rfilename": name, "size": size * 2**20}
            for name, size in listing[model, revision].items()
        ]
        return ModelInfo(id=model, siblings=files)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(HfApi, "model_info", model_info)
    _hub_bytes.cache_clear()
    yield listing
    _hub_bytes.cache_clear()


def test_weights_that_are_not_here_are_as_large_as_the_hub_says(
    tmp_path: Path, hub: Listing
) -> None:
    nested = "original/a.safetensors"
    hub["org/far", None] = {"model.safetensors": 512, "model.bin": 99, nested: 99}
    hub["org/name", "v2"] = {"model.bin": 256}
    cached(tmp_path, model_dot_safetensors=128)
    cache = str(tmp_path)
    assert weights_gib("org/name", cache=cache) == 0.125
    assert weights_gib("org/name", COMMIT, cache) == 0.125
    assert weights_gib("org/name", "v2", cache) == 0.25
    assert weights_gib("org/far", cache=cache) == 0.5
    for gone in ("org/gone", "not an id"):
        assert weights_gib(gone, cache=cache) is None


OPEN_WEIGHTS, OWN = "openai/gpt-oss-20b", "acme/judge"


@pytest.mark.parametrize(
    ("model", "does"),
    [
        (Served("j", OWN), False),
        (Served("j", OPEN_WEIGHTS), True),
        (Served("j", "Qwen/Qwen3-30B-A3B-Thinking-2507"), True),
        (Served("j", "Qwen/Qwen3-30B-A3B-Instruct-2507"), False),
        (Served("j", OWN, ("--reasoning-parser", "qwen3")), True),
        (Served("j", OWN, reasoning_end="</think>"), True),
        (Served("j", OWN, template_kwargs={"enable_thinking": True}), True),
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
        (Rule("keyword"), False),
    ],
    ids=str,
)
def test_whether_a_model_reasons_is_known_by_how_it_is_asked_and_by_its_name(
    model: Model, does: bool
) -> None:
    assert writes_reasoning(model) is does


@pytest.mark.parametrize("file", ["chat_template.jinja", "tokenizer_config.json"])
def test_a_model_whose_template_can_turn_its_thoughts_off_reasons_until_told_not_to(
    tmp_path: Path, file: str
) -> None:
    assert not writes_reasoning(Served("j", str(tmp_path)))
    text = "{% if enable_thinking is false %}<think></think>{% endif %}"
    if file.endswith(".json"):
        text = json.dumps({"chat_template": text})
    (tmp_path / file).write_text(text)
    assert writes_reasoning(Served("j", str(tmp_path)))
    off = {"enable_thinking": False}
    assert not writes_reasoning(Served("j", str(tmp_path), template_kwargs=off))


CLASSIFIER = ["XForSequenceClassification"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"architectures": ["XForCausalLM"], "id2label": {"0": "a"}}, None),
        ({"architectures": "XForSequenceClassification"}, None),
        ({"architectures": CLASSIFIER, "id2label": ["odd"]}, ClassifierConfig()),
        (
            {"architectures": CLASSIFIER, "id2label": {"10": "c", "2": "b", "0": "a"}},
            ClassifierConfig(("a", "b", "c")),
        ),
    ],
)
def test_a_classifier_s_labels_are_in_the_order_of_their_numbers(
    tmp_path: Path, config: object, expected: ClassifierConfig | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert classifier_config(served(tmp_path)) == expected


def test_a_classifier_s_form_is_declared_whole_or_an_error(tmp_path: Path) -> None:
    form: dict[str, Any] = {"format": "{request} {answer}", "refusal_label": "No"}
    config = {"architectures": CLASSIFIER, "refusal_judge": form}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    declared = classifier_config(served(tmp_path))
    assert declared
    assert declared.form
    assert declared.form.refusal_label == "No"
    form["format"] = "{request}"
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"config\.json: refusal_judge: "):
        classifier_config(served(tmp_path))
