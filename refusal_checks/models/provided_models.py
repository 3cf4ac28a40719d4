"""Models provided by extensions under a name: ``PREFIX:NAME`` or a single word.

Such an extension is a module with ``provide()``, see docs/how-to/extending.md.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.suggestions import suggest
from refusal_checks.io import extensions
from refusal_checks.version import SOURCE

PROVIDE = "provide"

_NAME = re.compile(r"[\w.-]+(:[\w.-]+)?")

RESERVED = ("keyword", "labels", "replay", "http", "https")
"""Prefixes of names with a meaning of their own."""

INSTALL_DEMO = (
    f'pip install "refusal-checks-demo @ {SOURCE}#subdirectory=demo" '
    "(in a checkout: pip install ./demo)"
)
"""The package with models to try a gate with, the only one that users may think is ours."""

DEMO = "demo:"
"""The prefix of that package's model names."""

DEMO_JUDGE = f"{DEMO}judge"
"""Its judge, a small classifier, which knows the answers of its other models best."""


class Weights(ABC):
    """Weights that are made when a run first needs them, then kept in a folder."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What the weights depend on; part of the keys of stored answers and verdicts."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder that an engine loads. It need not exist yet."""

    @property
    def settings(self) -> Path | None:
        """A folder that has the model's config.json before the weights are made."""
        return None

    @abstractmethod
    def require(self) -> None:
        """Raise ModelError, with the remedy, if something obvious is missing; must be quick."""

    def check(self) -> None:
        """Raise ModelError if ``make`` would; make nothing."""
        self.require()

    @abstractmethod
    def is_ready(self) -> bool:
        """True if the folder is complete and undamaged."""

    @abstractmethod
    def make(self, say: Callable[[str], None]) -> None:
        """Make the folder unless it is ready; ``say`` shows the user a line."""


@dataclass(frozen=True)
class ProvidedModel:
    """A model that users name with ``--candidate`` or ``--judge``.

    Attributes:
        name: what users write, for example ``acme:small``.
        folder: what an engine loads: weights, config.json and tokenizer.
        weights: makes the folder, for a model that has no ``folder`` of its own.
        template_kwargs: variables for its chat template; the user's win.
        is_classifier: True if it says whether an answer refuses and writes no text. It can only
            judge, and the user's settings for all judges do not apply to it.
        prompts: folder of judge prompts for it, see ``JudgeSetup.prompt``.
        remark: one line that reports of a run with the model must show.
    """

    name: str
    folder: Path | None = None
    weights: Weights | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    is_classifier: bool = False
    prompts: Path | None = None
    remark: str = ""

    @property
    def place(self) -> Path:
        """The folder that an engine loads, now or once the weights are made."""
        place = self.weights.folder if self.weights else self.folder
        assert place is not None, "discover() refuses models without a place"
        return place


def discover() -> dict[str, ProvidedModel]:
    """The models of all extensions by name, in the extensions' order.

    Each call asks the extensions again, since their models may depend on the environment.
    """
    names = extensions.UniqueNames("models")
    models: dict[str, ProvidedModel] = {}
    for extension in extensions.load_all():
        if not extension.has(PROVIDE):
            continue
        # Whatever a stranger's code raises names the extension, not this package.
        with extensions.blame(extension):
            provided = list(vars(extension.module)[PROVIDE]())
        for model in provided:
            _require_usable(model, extension.origin)
            names.add(model.name, extension.origin)
            models[model.name] = model
    return models


def _require_usable(model: object, origin: str) -> None:
    if not isinstance(model, ProvidedModel):
        raise extensions.ExtensionError(
            f"extension {origin}: {PROVIDE}() must return ProvidedModel, not "
            f"{type(model).__name__}"
        )
    if not _NAME.fullmatch(model.name) or model.name.partition(":")[0] in RESERVED:
        raise extensions.ExtensionError(
            f"extension {origin}: call its model NAME or PREFIX:NAME, and begin with none of "
            f"{', '.join(RESERVED)}: {model.name!r} cannot be told from other models"
        )
    if (model.folder is None) == (model.weights is None):
        raise extensions.ExtensionError(
            f"extension {origin}: give {model.name} either a folder or weights"
        )


def is_classifier(name: str) -> bool:
    """True for the name of a provided judge that is a classifier and writes no text."""
    model = discover().get(name)
    return model is not None and model.is_classifier


def names_for(option: str) -> list[str]:
    """The names of provided models that ``--candidate`` or ``--judge`` takes."""
    return [
        model.name
        for model in discover().values()
        if option == "--judge" or not model.is_classifier
    ]


def explain_unknown(name: str, option: str) -> str:
    """Why no extension provides a name of this form; empty if provided names look different."""
    prefix, colon, _ = name.partition(":")
    siblings = []  # models of the same extension, of which one may be meant
    if colon:
        names = names_for(option)
        siblings = [sibling for sibling in names if sibling.startswith(f"{prefix}:")]
    if siblings:
        hint = suggest(name, siblings, 0.75) or "."
        return f"no such {prefix} model{hint} Known: {', '.join(siblings)}"
    if name.startswith(DEMO):
        return f"install the demo models: {INSTALL_DEMO}"
    return ""
