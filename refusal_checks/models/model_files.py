"""What a model's own files say: its special tokens, its context, and how large its weights are.

The files of a Hugging Face id are those of the local cache.
"""

import fnmatch
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import ClassifierForm
from refusal_checks.core.text import FAMILIES, SpecialTokens
from refusal_checks.models.client.answers import MALFORMED
from refusal_checks.models.client.server_errors import LEAST
from refusal_checks.models.names import Attached, Model, Served, expanded

_NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tekken.json",
    "chat_template.json",
    "chat_template.jinja",
)
"""The files that declare tokens, in the forms of Hugging Face and Mistral."""

_MARKER = re.compile(
    r"</?[^<>\s{}%|]{1,60}>|\[/?[A-Za-z_]{2,60}\]|#{2,4} ?[A-Z][\w ]{1,30}:"
)
"""Text of a chat template that marks turns without being a token of its tokenizer."""

_TAGS = re.compile(r"\{([#%]).*?(?:\1\}|(\Z))", re.DOTALL)
"""A comment or a statement, or a beginning that nothing ends."""

_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*+)'?|\"((?:[^\"\\\n]|\\.)*+)\"?")
"""A string constant, or the rest of a line after a quotation mark."""

RETRY = 5.0
"""Seconds after which files are looked for again that were not there: an engine downloads them."""

_WEIGHTS = ("model*.safetensors", "*.safetensors", "*.bin", "*.gguf", "*.pt")
"""Names of weight files, best first: some folders hold the same weights in several formats."""

PATIENCE = 10.0  # seconds that the hub may take to list a model's files


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


def special_tokens(model: Model) -> SpecialTokens:
    """The special tokens of a model: those of its files, if there are any, and all known ones.

    The files are an engine's model's, those of another tokenizer or template, and of adapters.
    """
    if not isinstance(model, Served):
        return FAMILIES
    options = _options(model)
    adapters = (arg.partition("=")[2] for arg in model.args if not arg.startswith("-"))
    others = (options.get("--tokenizer"), options.get("--chat-template"), *adapters)
    places = (model.path, *filter(None, others))
    cache = options.get("--download-dir")
    revision = options.get("--tokenizer-revision") or options.get("--revision")
    found, after = frozenset[str](), 0.0

    def of_files() -> frozenset[str]:
        nonlocal found, after
        if not found and time.monotonic() >= after:
            files = (
                file for place in places for file in _files(place, cache, revision)
            )
            found = frozenset[str]().union(*map(_of_file, files))
            after = time.monotonic() + RETRY
        return found

    return SpecialTokens(of_files)


def _files(place: str, cache: str | None, revision: str | None) -> Iterator[Path]:
    """The files of a folder or a Hugging Face id, or the file itself."""
    with suppress(
        OSError, RuntimeError, ValueError
    ):  # no name of a file: a template, perhaps
        path = Path(place).expanduser()
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from filter(Path.is_file, (path / name for name in _NAMES))
        else:
            yield from filter(
                None, (_cached(place, name, cache, revision) for name in _NAMES)
            )


@cache
def _of_file(path: Path) -> frozenset[str]:
    """The tokens that a file declares; none if it cannot be read, which its engine will say."""
    try:
        if path.stat().st_size > 256 * 2**20:  # the largest tokenizers known have 40 MB
            return frozenset()
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return frozenset(_of_template(text))
        content = json.loads(text)
        is_map = path.name == "added_tokens.json" and isinstance(content, dict)
        return frozenset(content if is_map else _of_json(content))
    except (OSError, ValueError, RecursionError):
        return frozenset()


def _of_json(content: Any) -> Iterator[str]:
    """Tokens in any of the files' forms: bare, as objects, in lists, and in chat templates."""
    if not isinstance(content, dict):
        return
    entries = [value for key, value in content.items() if key.endswith("_token")]
    for key in ("added_tokens", "special_tokens", "additional_special_tokens"):
        entries += content[key] if isinstance(content.get(key), list) else []
    decoder = content.get("added_tokens_decoder")
    entries += decoder.values() if isinstance(decoder, dict) else []
    for entry in entries:
        is_object = isinstance(entry, Mapping)
        token = entry.get("content", entry.get("token_str")) if is_object else entry
        if isinstance(token, str):
            yield token
    templates = content.get("chat_template")
    for one in templates if isinstance(templates, list) else [templates]:
        source = one.get("template") if isinstance(one, Mapping) else one
        yield from _of_template(source) if isinstance(source, str) else ()


def _of_template(source: str) -> Iterator[str]:
    """The markers of turns in a template's text and in its string constants."""
    for quoted in _TEXT.finditer(source):
        yield from _MARKER.findall(quoted[1] or quoted[2] or "")
    text = _TAGS.sub(lambda tag: " " if tag[2] is None else tag[0], source)
    yield from _MARKER.findall(text)


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


class TokenizerFiles(NamedTuple):
    """Whether a model's tokenizer is here, and comes with a chat template."""

    are_there: bool
    have_template: bool


def tokenizer_files(model: Served) -> TokenizerFiles:
    """What is here of a model's tokenizer, in its folder or in the local cache."""
    options = _options(model)
    cache, revision = options.get("--download-dir"), options.get("--revision")
    files = {
        path.name: path for path in _files(str(expanded(model.path)), cache, revision)
    }
    about = _read_object(files.get("tokenizer_config.json"))
    processor = _read_object(expanded(model.path) / "processor_config.json")
    have_template = bool(
        about.get("chat_template")
        or processor.get("chat_template")
        # Mistral's tokenizers need none.
        or files.keys() & {"chat_template.json", "chat_template.jinja", "tekken.json"}
        or (expanded(model.path) / "additional_chat_templates").is_dir()
    )
    return TokenizerFiles(bool(about), have_template)


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


def weights_gib(
    model: str, revision: str | None = None, cache: str | None = None
) -> float | None:
    """GiB of weights of a folder, or of a Hugging Face id: in the local cache, else on the hub.

    None if the weights, or a part of them, are not here, and the hub does not list them.
    """
    if Path(model).is_dir():
        size = _size(Path(model))
    else:
        config = _cached(model, "config.json", cache, revision)
        size = (config and _size(config.parent)) or _on_hub(model, revision)
    return size / 2**30 if size else None


def _size(folder: Path) -> int:
    """Bytes of the weights: as an index of several files declares, else of the files themselves."""
    for index in folder.glob("*.safetensors.index.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            return int(json.loads(index.read_bytes())["metadata"]["total_size"])
    return _of_one_format(
        {p.name: p.stat().st_size for p in folder.iterdir() if p.is_file()}
    )


def _of_one_format(sizes: Mapping[str, int]) -> int:
    found = (
        [sizes[name] for name in fnmatch.filter(sizes, pattern)] for pattern in _WEIGHTS
    )
    return sum(next(filter(None, found), []))


@cache
def _on_hub(model: str, revision: str | None) -> int:
    """Bytes as the hub lists them; 0 if it cannot be asked or has no such model."""
    from huggingface_hub import HfApi

    if model.count("/") != 1:
        return 0
    try:
        info = HfApi().model_info(
            model, revision=revision, files_metadata=True, timeout=PATIENCE
        )
    except Exception:  # its HTTP library has its own; the engine itself reports it best
        return 0
    files = {file.rfilename: file.size or 0 for file in info.siblings or []}
    return _of_one_format(
        {name: size for name, size in files.items() if "/" not in name}
    )
