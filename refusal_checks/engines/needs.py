"""What a model's files need that its engine gets only if it is told: their own code, a template.

Of a Hugging Face id, only what is in the local cache is looked at. Nothing is imported: engines
list in their source files which models they know.
"""

import importlib.util
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from refusal_checks.core.errors import ModelError
from refusal_checks.models.model_files import classes, configuration
from refusal_checks.models.names import Served
from refusal_checks.models.token_files import tokenizer_files

_CONFIGURATIONS = {
    "transformers": (
        "transformers/models/auto/auto_mappings.py",
        "transformers/models/auto/configuration_auto.py",
    ),
    "vllm": (
        "transformers/models/auto/auto_mappings.py",
        "transformers/models/auto/configuration_auto.py",
        "vllm/transformers_utils/config.py",
    ),
}
"""By engine, where it lists the types of models that it can load without their own code."""

_TEMPLATES = {
    "transformers": (),
    "vllm": (
        "vllm/transformers_utils/chat_templates/registry.py",
        "vllm/renderers/registry.py",
    ),
}
"""By engine, where it lists the types of models that it has a chat template for."""

_ELSEWHERE = frozenset(
    {
        "--config",
        "--config-format",
        "--hf-config-path",
        "--hf-overrides",
        "--load-format",
        "--tokenizer",
        "--tokenizer-mode",
    }
)
"""Arguments by which an engine reads other files than the model's own."""


class Need(NamedTuple):
    """One thing that an engine has to be told.

    Attributes:
        said: what to give it, and why.
        is_certain: False if the engine may do without.
    """

    said: str
    is_certain: bool


def needs(model: Served, option: str) -> Iterator[Need]:
    """What the model that ``option`` names needs, and the arguments of its engine do not give."""
    given = {argument.partition("=")[0].replace("_", "-") for argument in model.args}
    # The files of a demo model are made when they are needed.
    if model.conversion or given & _ELSEWHERE:
        return
    about = configuration(model)
    model_type = str(about.get("model_type") or "")
    is_folder = Path(model.path).is_dir()
    # Nothing here tells what another program has.
    is_known_engine = model.engine in _CONFIGURATIONS and not model.program
    if about.get("auto_map") and "--trust-remote-code" not in given:
        known = _lists(model_type, _CONFIGURATIONS.get(model.engine, ()))
        if not known:
            yield Need(
                f'{option} {model.name}: give {option}-args="--trust-remote-code" if you trust the '
                "Python files that come with the model: its config.json (auto_map) asks for them, "
                f"and the engine has no model of the type {model_type or 'that it names'}",
                known is False and is_known_engine,
            )
    if "--chat-template" in given or classes(model):
        return
    files = tokenizer_files(model)
    if files.are_there and not files.have_template:
        known = _lists(model_type, _TEMPLATES.get(model.engine, ()))
        if not known:
            remedy = f'give {option}-args="--chat-template FILE"'
            if model.engine == "transformers":  # which has no such argument
                remedy = "put a chat_template.jinja beside its tokenizer"
            yield Need(
                f"{option} {model.name}: {remedy}: its tokenizer has no chat template, so the "
                "engine would refuse every conversation",
                known is False and is_known_engine and is_folder,
            )


def require_none(model: Served, option: str) -> list[str]:
    """Raise ModelError for what is certainly needed; returns what may be."""
    found = list(needs(model, option))
    certain = [need.said for need in found if need.is_certain]
    if certain:
        raise ModelError("; ".join(certain))
    return [need.said for need in found]


def _lists(model_type: str, files: Sequence[str]) -> bool | None:
    """True if one of a package's files names the type; None if none of them can be read."""
    if not files:
        return False
    texts = []
    for name in files:
        package, _, path = name.partition("/")
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            with suppress(OSError, UnicodeDecodeError):
                texts.append((Path(folder) / path).read_text(encoding="utf-8"))
    if not texts:
        return None
    word = re.compile(rf"(?<![\w-]){re.escape(model_type)}(?![\w-])")
    return bool(model_type) and any(word.search(text) for text in texts)
