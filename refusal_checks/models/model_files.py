"""What a model's own files say: its special tokens, its context, and how large its weights are.

The files of a Hugging Face id are those of the local cache.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.models.client.server_errors import MALFORMED
from refusal_checks.models.client.token_limits import LEAST
from refusal_checks.models.names import Attached, Model, Served, expanded


def _options(model: Served) -> dict[str, str]:
    return dict(pairwise(part for arg in model.args for part in arg.split("=", 1)))


def _cached(
    model: str, name: str, cache: str | None, revision: str | None
) -> Path | None:
    """A file of a Hugging Face id in the local cache; None if it is not there."""
    from huggingface_hub import (
        try_to_load_from_cache,
    )  # not before it is needed: it loads HTTP
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, name, cache, revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def declared(model: Served) -> int | None:
    """The context of a model that an engine serves, by its arguments, else by its configuration.

    None where neither is clear: the file is not here yet, or positions are stretched.
    """
    options = _options(model)
    given = options.get("--max-model-len") or options.get("--max_model_len") or ""
    if given and given not in ("auto", "-1"):
        return int(given) if given.isdecimal() and len(given) < 10 else None
    about = configuration(model)
    with suppress(*MALFORMED):
        text = about.get("text_config", about)
        if not (
            text.get("rope_scaling") or text.get("rope_parameters", {}).get("factor")
        ):
            found = text["max_position_embeddings"]
            return found if type(found) is int and found >= LEAST else None
    return None


def configuration(model: Served) -> Mapping[str, Any]:
    """A model's ``config.json``; empty if it is not here or cannot be read."""
    path: Path | None = expanded(model.path) / "config.json"
    if path and model.conversion and model.conversion.trained and not path.is_file():
        path = model.conversion.trained / "config.json"
    elif path and not path.parent.is_dir():
        options = _options(model)
        folder, revision = options.get("--download-dir"), options.get("--revision")
        path = _cached(model.path, "config.json", folder, revision)
    return _read_object(path)


def _read_object(path: Path | None) -> Mapping[str, Any]:
    """A JSON file's object; empty if there is none, or it cannot be read."""
    with suppress(ValueError, RecursionError, OSError):
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
        return found if isinstance(found, dict) else {}
    return {}


_REASONERS = ("gpt-oss", "gpt_oss", "deepseek-r1", "qwq", "magistral", "-thinking")
"""Parts of the names of models that always reason, in lower case; one is a type of model, too."""


def reasons(model: Model) -> bool:
    """True if a model is known to write its reasoning before each answer.

    That is how the user asks it (a parser or an end of reasoning, variables of its template), else
    its name and its configuration. One whose thinking is turned off does not reason.
    """
    if not isinstance(model, Served | Attached):
        return False
    for variable in ("enable_thinking", "thinking", "reasoning_effort"):
        if variable in model.template_kwargs:
            return model.template_kwargs[variable] not in (False, None, "none")
    if model.reasoning_end:
        return True
    if isinstance(model, Attached):
        named = [model.model]
    elif _options(model).keys() & {"--reasoning-parser", "--reasoning_parser"}:
        return True
    else:
        named = [Path(model.path).name, str(configuration(model).get("model_type", ""))]
    return any(part in name.lower() for name in named for part in _REASONERS)


class Classes(NamedTuple):
    """What a sequence classifier's configuration says."""

    labels: tuple[str, ...] = ()  # in their order
    form: ClassifierForm | None = (
        None  # None if it declares none under ``refusal_judge``
    )


def classes(model: Served) -> Classes | None:
    """Of a sequence classifier; None for other models, and where there is no configuration."""
    about = configuration(model)
    names = about.get("architectures")
    if not isinstance(names, list) or not str(names[:1]).endswith(
        "ForSequenceClassification']"
    ):
        return None
    labels: Any = about.get("id2label") or {}
    declared = about.get("refusal_judge")
    ordered: tuple[str, ...] = ()
    with suppress(*MALFORMED):
        ordered = tuple(str(labels[key]) for key in sorted(labels, key=int))
    try:
        return Classes(
            ordered,
            declared and ClassifierForm.model_validate_json(json.dumps(declared)),
        )
    except ValueError as fault:
        raise ModelError(f"{model.path}/config.json: refusal_judge: {fault}") from None
