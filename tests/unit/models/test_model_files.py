"""What a model's own files say of it."""

import json
from collections.abc import Iterator, Mapping
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


def served(folder: Path) -> Served:
    return Served("judge", str(folder))


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sized(folder: Path, mebibytes: Mapping[str, int]) -> None:
    """Write files of these sizes into a new folder or an empty one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in mebibytes.items():
        with (folder / name).open("wb") as file:
            file.truncate(size * 2**20)


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        ({"config.json": 1}, None),
        ({"model.safetensors": 512, "consolidated.safetensors": 512}, 0.5),
        ({"a.bin": 512, "b.bin": 512}, 1.0),
        ({"model-1-of-2.safetensors": 256, "model-2-of-2.safetensors": 256, "old.bin": 99}, 0.5),
        # Variants, and what training left: an engine holds neither.
        ({"model.safetensors": 512, "model.fp16.safetensors": 256}, 0.5),
        ({"pytorch_model-1.bin": 256, "optimizer.bin": 512, "scheduler.pt": 1}, 0.25),
    ],
)  # fmt: skip
def test_weights_are_the_files_of_one_format(
    tmp_path: Path, files: dict[str, int], gib: float | None
) -> None:
    sized(tmp_path, files)
    assert weights_gib(str(tmp_path)) == gib


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
    cached = tmp_path / "models--org--name"
    sized(cached / "snapshots" / COMMIT, {"config.json": 0, "model.safetensors": 128})
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    for model, revision, gib in (
        ("org/name", None, 0.125),
        ("org/name", COMMIT, 0.125),
        ("org/name", "v2", 0.25),
        ("org/far", None, 0.5),
        ("org/gone", None, None),
        ("not an id", None, None),
    ):
        assert weights_gib(model, revision, str(tmp_path)) == gib


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
        (Served("j", OWN, (), {"enable_thinking": True}), True),
        # What the user says of this model wins.
        (Served("j", OPEN_WEIGHTS, (), {"reasoning_effort": "none"}), False),
        (Served("j", OWN, ("--reasoning-parser", "x"), {"enable_thinking": False}), False),
        (Attached("j", "http://h/v1", "gpt-oss-120b"), True),
        (Attached("j", "http://gpt-oss.example/v1", "small"), False),
        (Rule("keyword"), False),
    ],
    ids=str,
)  # fmt: skip
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
    ("architectures", "labels", "expected"),
    [
        (["XForCausalLM"], {"0": "a"}, None),
        (CLASSIFIER[0], {"0": "a"}, None),  # no list
        (CLASSIFIER, ["odd"], ClassifierConfig()),
        (CLASSIFIER, {"10": "c", "2": "b", "0": "a"}, ClassifierConfig(("a", "b", "c"))),
    ],
)  # fmt: skip
def test_a_classifier_s_labels_are_in_the_order_of_their_numbers(
    tmp_path: Path,
    architectures: object,
    labels: object,
    expected: ClassifierConfig | None,
) -> None:
    config = {"architectures": architectures, "id2label": labels}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert classifier_config(served(tmp_path)) == expected


def test_a_classifier_s_form_is_declared_whole_or_an_error(tmp_path: Path) -> None:
    form = {"format": "{request} {answer}", "refusal_label": "No"}
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
