"""What a model's name means: a folder, Hugging Face id, server, recording, or rule."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from refusal_checks.core.errors import ModelError
from refusal_checks.core.redaction import strip_credentials
from refusal_checks.core.suggestions import lead_with_hint, suggest
from refusal_checks.io.files import explain_missing_file, resolve_path
from refusal_checks.models import provided_models
from refusal_checks.models.provided_models import ProvidedModel, Weights

RECORDED_LABELS = "labels"
"""The judge that repeats the labels of recorded answers."""

RULE_JUDGES = ("keyword", RECORDED_LABELS)  # judges that need no model

DEMO_RECORDINGS = ("replay:demo", "replay:demo-regressed")
"""Recorded answers of two demo models, which come with the package: ``recordings/demo.jsonl``."""

MODERATION = "moderation:"
"""Prefix of judges that are a server's moderation endpoint."""


@dataclass(frozen=True)
class Served:
    """A model that an engine is started for.

    Attributes:
        name: as the user wrote it.
        path: what the engine loads: a local folder or a Hugging Face id.
        args: further arguments of the engine, verbatim.
        template_kwargs: variables for the model's own chat template.
        reasoning_end: the text that ends the model's reasoning, see ``client.reasoning``.
        judge_reasoning: True if the reasoning is judged as a part of the answer.
        adapter: the LoRA adapter to ask for, which ``args`` must load; empty for the model itself.
        program: the command to start in place of the engine's own; empty for the engine's own.
        provided: the extension's model behind this name; None for other models.
    """

    name: str
    path: str
    args: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_end: str = ""
    adapter: str = ""
    program: tuple[str, ...] = ()
    provided: ProvidedModel | None = field(default=None, compare=False)
    judge_reasoning: bool = False

    @property
    def served_name(self) -> str:
        """What requests call it: vLLM names a model as it was told to load it."""
        return self.adapter or self.path

    @property
    def weights(self) -> Weights | None:
        """The maker of the folder ``path``; None if there is nothing to make."""
        return self.provided.weights if self.provided else None


@dataclass(frozen=True)
class Attached:
    """A model on an OpenAI-compatible server that somebody else runs; the URL ends in ``/v1``.

    Attributes:
        model: its name on the server; empty for the server's only model.
        moderates: True to ask ``/v1/moderations``, not for chat completions.
    """

    name: str
    url: str
    model: str
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_end: str = ""
    judge_reasoning: bool = False
    moderates: bool = False


@dataclass(frozen=True)
class Replay:
    """Recorded answers in place of a model; see ``recordings``."""

    name: str
    path: Path
    reasoning_end: str = ""
    judge_reasoning: bool = False


@dataclass(frozen=True)
class Rule:
    """A judge without a model: ``keyword`` or ``labels``."""

    name: str


CandidateModel = Served | Attached | Replay
JudgeModel = Served | Attached | Rule
Model = Served | Attached | Replay | Rule


@dataclass(frozen=True)
class ModelOptions:
    """Command-line options of a model besides its name; see ``Served``."""

    args: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_end: str = ""
    program: tuple[str, ...] = ()
    judge_reasoning: bool = False


def parse_candidate(
    name: str, options: ModelOptions = ModelOptions()
) -> CandidateModel:
    """Read what ``--candidate`` names.

    A model of an extension comes first, then a folder, then a Hugging Face id.

    Raises:
        ModelError: no candidate has such a name; the message says what to write.
    """
    if name.startswith("replay:"):
        if name == "replay:":
            raise ModelError(f"--candidate {name}: write replay:FILE, with a file")
        if options.args:
            raise _args_without_engine(name, "--candidate")
        path = expand_home(name.removeprefix("replay:"))
        if name in DEMO_RECORDINGS:
            path = Path(__file__).parent / "recordings" / f"{path}.jsonl"
        why = explain_missing_file(
            path, suggest(name, DEMO_RECORDINGS, 0.8) or "; check its path"
        )
        if why:
            raise ModelError(f"--candidate {_hide_secrets(name)}: {why}")
        return Replay(name, path, options.reasoning_end, options.judge_reasoning)
    if name in RULE_JUDGES or name_writes_no_text(name):
        shown = _hide_secrets(name)
        raise ModelError(
            f"--candidate {shown}: use --judge {shown}, since this is a judge"
        )
    return _parse_model(name, options, "--candidate")


def parse_judge(name: str, options: ModelOptions = ModelOptions()) -> JudgeModel:
    """Read what ``--judge`` names; see ``parse_candidate``."""
    if name in RULE_JUDGES:
        return Rule(name)
    if name.startswith("replay:"):
        raise ModelError(
            f"--judge {_hide_secrets(name)}: use labels or keyword, since recorded answers cannot "
            "judge"
        )
    if name.startswith(MODERATION):
        return _parse_moderation(name, options)
    return _parse_model(name, options, "--judge")


def _parse_moderation(name: str, options: ModelOptions) -> Attached:
    url = name.removeprefix(MODERATION)
    if not url.startswith(("http://", "https://")):
        raise ModelError(
            f"--judge {_hide_secrets(name)}: write {MODERATION}URL#MODEL, such as "
            f"{MODERATION}https://api.openai.com/v1#omni-moderation-latest"
        )
    return replace(_parse_url(url, options, "--judge"), name=name, moderates=True)


_HOSTED = re.compile(r"(openai|anthropic)/((?:gpt-[345]|chatgpt|o[134]|claude).*)")
_HOSTED_URL = r"https://api.\1.com/v1#\2"
"""Models that only their makers serve, as other tools name them."""


def _parse_model(name: str, options: ModelOptions, option: str) -> Served | Attached:
    if name.startswith(("http://", "https://")):
        return _parse_url(name, options, option)
    base, _, adapter = name.rpartition("@")
    # A folder's own name may have an @, as those of checkpoints do.
    if not (base and adapter) or expand_home(name).exists():
        return _parse_served(name, name, options, option)
    model = _parse_served(name, base, options, option)
    if "--lora-modules" not in options.args:
        raise ModelError(
            f"{option} {_hide_secrets(name)}: name the adapter's folder with "
            f"--set {option.removeprefix('--')}.args="
            f'"--enable-lora --lora-modules {_hide_secrets(adapter)}=FOLDER"'
        )
    return replace(model, adapter=adapter)


_ADDRESS = re.compile(r"[\w.-]+(:\d+(/.*)?|/.*#.*)")
"""A server's address without its scheme: a port, or a path with ``#MODEL``, tells it from an id."""


def _no_such_model(name: str, option: str) -> ModelError:
    shown = _hide_secrets(name)
    if _ADDRESS.fullmatch(name):
        return ModelError(
            f"{option} {shown}: for a server, write http://{shown} (or https://): there is no "
            "folder of this name"
        )
    words = provided_models.names_for(option)
    others, prefixes = "or replay:FILE", {"replay"}
    if option == "--judge":
        words += RULE_JUDGES
        others, prefixes = "keyword or labels", {"moderation"}
    prefix, colon, rest = name.partition(":")
    hint = lead_with_hint(suggest(name, words, 0.7))
    if colon and rest:
        prefixes |= {word.partition(":")[0] for word in words if ":" in word}
        hint = hint or lead_with_hint(
            suggest(f"{prefix}:", {f"{one}:" for one in prefixes}, 0.7)
        )
    if "," in name and option == "--judge":
        each = " ".join(f"--judge {_hide_secrets(part)}" for part in name.split(","))
        hint = f"for several judges, repeat the option ({each}); else "
    return ModelError(
        f"{option} {shown}: no such folder; {hint}name a folder, a Hugging Face id (ORG/MODEL), a "
        f"URL (http://HOST/v1#MODEL), a model of an extension (PREFIX:NAME), {others}"
    )


def _parse_served(name: str, base: str, options: ModelOptions, option: str) -> Served:
    """Parse ``base``, a name without its adapter."""
    model = provided_models.discover().get(base)
    if model is not None:
        return _make_provided(name, model, options, option)
    why = provided_models.explain_unknown(base, option)
    if why:
        raise ModelError(f"{option} {_hide_secrets(name)}: {why}")
    folder = expand_home(base)
    # Before Hugging Face ids: a folder org/model is meant where it is.
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{option} {base}: name a model's folder: this has no config.json"
            )
        # Resolved, so that the same folder by two names is one engine and one key in the store.
        return Served(name, str(resolve_path(folder)), **vars(options))
    if folder.is_file():
        raise ModelError(
            f"{option} {base}: for recorded answers, write replay:{base}; a file is not a model"
        )
    if _HOSTED.fullmatch(base) and not options.program:
        raise ModelError(
            f"{option} {base}: write {_HOSTED.sub(_HOSTED_URL, base)}: its weights are not "
            "public, so no engine can load it"
        )
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base) and not base.startswith("."):
        return Served(name, base, **vars(options))
    raise _no_such_model(name, option)


def _make_provided(
    name: str, model: ProvidedModel, options: ModelOptions, option: str
) -> Served:
    """Make an extension's model; the user's template variables win over its own."""
    try:
        if model.weights:
            model.weights.require()
    except ModelError as fault:
        raise ModelError(f"{option} {name}: {fault}") from None
    variables = {**model.template_kwargs, **options.template_kwargs}
    settings = vars(options) | {"template_kwargs": variables}
    return Served(name, str(model.place), **settings, provided=model)


def model_remark(model: Model) -> str:
    """What readers must know about a model from an extension or a demo; empty for others."""
    if model.name in DEMO_RECORDINGS:
        return (
            "answers of a demo model, recorded with the verdicts of demo:judge: they show how a "
            "gate works, and say nothing about other models"
        )
    given = model.provided if isinstance(model, Served) else None
    return given.remark if given else ""


def name_writes_no_text(name: str) -> bool:
    """True for the name of a judge that writes no text, as far as the name tells."""
    return name.startswith(MODERATION) or provided_models.is_classifier(name)


def writes_no_text(model: Model) -> bool:
    """True for a judge that writes no text: an extension's classifier, a moderation endpoint."""
    if isinstance(model, Attached):
        return model.moderates
    given = model.provided if isinstance(model, Served) else None
    return given is not None and given.is_classifier


def _parse_url(name: str, options: ModelOptions, option: str) -> Attached:
    shown = _hide_secrets(name)
    if options.args:
        raise _args_without_engine(name, option)
    url, _, model = name.partition("#")
    try:
        host = urlsplit(url).hostname
    except ValueError:  # an IPv6 address without its bracket
        host = None
    if not host:
        raise ModelError(
            f"{option} {shown}: write a URL with a host: http://HOST:PORT/v1#MODEL"
        )
    if "@" in urlsplit(url).netloc:
        raise ModelError(
            f"{option}: remove the user and password (@) from the URL, because reports show it; "
            "set the server's key in the environment"
        )
    # A query often holds a key (?key=...), which manifests and logs would publish.
    if "?" in url or "=" in model.partition("?")[2]:
        raise ModelError(
            f"{option} {shown}: remove the query (?) from the URL: paths are added to it, and "
            "reports show it; set a key in the environment"
        )
    return Attached(
        name,
        url.rstrip("/"),
        model,
        options.template_kwargs,
        options.reasoning_end,
        options.judge_reasoning,
    )


def _args_without_engine(name: str, option: str) -> ModelError:
    return ModelError(
        f"remove {option.removeprefix('--')}.args: they are for engines started here, not for "
        f"{_hide_secrets(name)}"
    )


def _hide_secrets(name: str) -> str:
    """A name for messages, without what may be a key: a URL's password, and all after ``?``."""
    place, mark, _ = strip_credentials(name).partition("?")
    return f"{place}?[...]" if mark else place


def expand_home(name: str) -> Path:
    """Expand ``~`` in a path if such a home exists, which ``Path.expanduser`` insists on."""
    return Path(os.path.expanduser(name))  # noqa: PTH111
