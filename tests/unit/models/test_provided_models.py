"""Models that extensions provide by name; the recipe of ``docs/how-to/extending.md`` is run."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.io import extensions
from refusal_checks.io.extensions import Extension, ExtensionError
from refusal_checks.models import provided_models
from refusal_checks.models.model_names import (
    ModelOptions,
    Served,
    model_remark,
    parse_candidate,
    parse_judge,
)
from refusal_checks.models.provided_models import ProvidedModel

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "extending.md"

Provide = Callable[..., None]


@pytest.fixture
def provide(monkeypatch: pytest.MonkeyPatch) -> Provide:
    """Lets an installed package, the only one, provide these models."""

    def install(*models: object) -> None:
        module = ModuleType("acme_gates")
        vars(module)["provide"] = lambda: models
        module.provide.__module__ = module.__name__
        acme = Extension("models", "acme-gates 1.0", module)
        monkeypatch.setattr(extensions, "load_all", lambda: (acme,))

    return install


def test_the_recipe_provides_checkpoints_that_a_run_can_name(
    provide: Provide, tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text("{}")
    (recipe,) = re.findall(
        r"```python\n(# acme_gates/models\.py\n.*?)```", PAGE.read_text(), re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(recipe, names)
    names["CHECKPOINTS"] = tmp_path
    provide(*names["provide"]())

    variables = {"persona": "calm"}
    small = parse_candidate("acme:small", ModelOptions(template_kwargs=variables))
    assert small == Served("acme:small", str(tmp_path / "small"), (), variables)
    assert model_remark(small) == "a checkpoint, not a release"
    with pytest.raises(ModelError, match='no such acme model; did you mean "acme:smal'):
        parse_candidate("acme:smell")


def test_a_classifier_can_only_judge(provide: Provide, tmp_path: Path) -> None:
    provide(ProvidedModel("guard", tmp_path, is_classifier=True))
    assert provided_models.is_classifier("guard")
    judge = parse_judge("guard")
    assert isinstance(judge, Served)
    assert judge.path == str(tmp_path)
    with pytest.raises(ModelError, match="use --judge guard"):
        parse_candidate("guard")


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("acme:small", r"provide\(\) must return ProvidedModel, not str"),
        (ProvidedModel("org/model", Path("x")), "call its model NAME or PREFIX:NAME"),
        (ProvidedModel("http:host", Path("x")), "call its model NAME or PREFIX:NAME"),
        (ProvidedModel("acme:small"), "give acme:small either a folder or weights"),
    ],
)
def test_a_model_that_could_be_taken_for_another_is_refused(
    provide: Provide, model: object, fault: str
) -> None:
    provide(model)
    with pytest.raises(ExtensionError, match=f"^extension acme-gates 1.0: {fault}"):
        provided_models.discover()


def test_two_models_of_one_name_are_refused(provide: Provide, tmp_path: Path) -> None:
    model = ProvidedModel("acme:small", tmp_path)
    provide(model, model)
    with pytest.raises(ExtensionError, match='two models are called "acme:small"'):
        provided_models.discover()


@pytest.mark.parametrize("name", ["demo:x@calm", "demo:judge"])
def test_without_the_demo_package_its_names_say_what_to_install(
    provide: Provide, name: str
) -> None:
    provide()
    with pytest.raises(ModelError, match='install the demo models: pip install "refus'):
        parse_judge(name)
