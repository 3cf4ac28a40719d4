"""Read a model's configuration: its context length, whether it writes reasoning, its classes.

The files of a Hugging Face id are those in the local cache.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.models.client.chat_replies import LEAST
from refusal_checks.models.client.server_errors import MALFORMED
from refusal_checks.models.model_names import Attached, Model, Served, expand_home


def argument_values(args: Sequence[str]) -> Mapping[str, str]:
    """The values of arguments by flag; vLLM treats underscores in flags like dashes."""
    parts: list[str] = []
    for argument in args:
        if argument.startswith("-"):
            flag, *value = argument.split("=", 1)
            parts += [flag.replace("_", "-"), *value]
        else:
            parts.append(argument)
    return dict(pairwise([*parts, ""]))


def find_cached(
    model: str, name: str, cache: str | None, revision: str | None
) -> Path | None:
    """Find a file of a Hugging Face id in the local cache; None if it is not there."""
    # Not before it is needed: it loads HTTP.
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, name, cache, revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def context_length(model: Served) -> int | None:
    """The context length of a model on an engine, from its arguments, else its configuration.

    None if neither is clear: the file is not cached yet, or positions are scaled.
    """
    options = argument_values(model.args)
    given = options.get("--max-model-len", "")
    # vLLM takes "32k", too; where it is not a plain number, nobody is told a length.
    if given and given not in ("auto", "-1"):
        return int(given) if given.isdecimal() and len(given) < 10 else None
    about = configuration(model)
    with suppress(*MALFORMED):
        text = about.get("text_config", about)  # of a model that reads pictures
        factor = text.get("rope_parameters", {}).get("factor")
        # Then models differ in which of several numbers is the length.
        if text.get("rope_scaling") or factor:
            return None
        positions = text["max_position_embeddings"]
        if type(positions) is int and positions >= LEAST:
            return positions
    return None


def configuration(model: Served) -> Mapping[str, Any]:
    """Read a model's ``config.json``; empty if it is not cached or cannot be read."""
    folder = expand_home(model.path)
    path: Path | None = folder / "config.json"
    settings = model.weights.settings if model.weights else None
    if settings and not (folder / "config.json").is_file():
        path = settings / "config.json"
    elif not folder.is_dir():
        options = argument_values(model.args)
        cache, revision = options.get("--download-dir"), options.get("--revision")
        path = find_cached(model.path, "config.json", cache, revision)
    return read_object(path)


def read_object(path: Path | None) -> Mapping[str, Any]:
    """Read a JSON file's object; empty if there is none, or it cannot be read."""
    if path is None:
        return {}
    with suppress(ValueError, RecursionError, OSError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return value
    return {}


_REASONERS = ("gpt-oss", "gpt_oss", "deepseek-r1", "qwq", "magistral", "-thinking")
"""Parts of names of models that always reason, in lower case; one is also a model type."""


def writes_reasoning(model: Model) -> bool:
    """True if a model is known to write its reasoning before each answer.

    The user's settings decide (a parser or an end of reasoning, template variables), else its name
    and configuration. A model whose thinking is turned off does not reason.
    """
    if not isinstance(model, Served | Attached):
        return False
    # Qwen3's and GLM's variable, DeepSeek's and Granite's, and gpt-oss's.
    for variable in ("enable_thinking", "thinking", "reasoning_effort"):
        if variable in model.template_kwargs:
            return model.template_kwargs[variable] not in (False, None, "none")
    if model.reasoning_end:
        return True
    if isinstance(model, Attached):
        return _is_reasoner(model.model)
    if "--reasoning-parser" in argument_values(model.args):
        return True
    model_type = str(configuration(model).get("model_type", ""))
    if _is_reasoner(Path(model.path).name) or _is_reasoner(model_type):
        return True
    return _SWITCH in _chat_template(expand_home(model.path))


_SWITCH = "enable_thinking"
"""Chat template variable of models that think unless it is false (Qwen3, GLM 4.5)."""


def _chat_template(folder: Path) -> str:
    """The chat template in a model's folder; empty if it has none, or cannot be read."""
    # Newer releases of transformers write it into a file of its own.
    with suppress(OSError, ValueError):
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    return str(read_object(folder / "tokenizer_config.json").get("chat_template", ""))


def _is_reasoner(name: str) -> bool:
    return any(part in name.lower() for part in _REASONERS)


class ClassifierConfig(NamedTuple):
    """What a sequence classifier's configuration says.

    Attributes:
        labels: the labels in order.
        form: how to write an exchange for it; None if nothing is declared under ``refusal_judge``.
    """

    labels: tuple[str, ...] = ()
    form: ClassifierForm | None = None


def classifier_config(model: Served) -> ClassifierConfig | None:
    """Describe a sequence classifier; None for other models, and without a configuration."""
    about = configuration(model)
    architectures = about.get("architectures")
    if not isinstance(architectures, list) or not architectures:
        return None
    if not str(architectures[0]).endswith("ForSequenceClassification"):
        return None

    names: Any = about.get("id2label") or {}
    labels: tuple[str, ...] = ()
    with suppress(*MALFORMED):
        # JSON has text for keys: "10" comes before "2".
        labels = tuple(str(names[key]) for key in sorted(names, key=int))
    form = about.get("refusal_judge")
    if not form:
        return ClassifierConfig(labels)
    try:
        return ClassifierConfig(
            labels, ClassifierForm.model_validate_json(json.dumps(form))
        )
    except ValueError as fault:
        raise ModelError(f"{model.path}/config.json: refusal_judge: {fault}") from None
