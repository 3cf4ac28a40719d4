"""Whether what a run will fetch can be reached: models and data sets of the hub, public files."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.base import Resource
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.pinned import PinnedFile
from refusal_checks.core.errors import network_reason
from refusal_checks.core.text import without_credentials

TIMEOUT = 5.0
"""Seconds that one address may take to answer."""


def model(name: str, revision: str | None = None) -> str:
    """Why a model of the hub cannot be fetched; empty if it can."""
    return _hub("model", name, revision)


def data(benchmarks: Iterable[Benchmark]) -> str:
    """Why data cannot be fetched: the first address that does not answer; empty if all do."""
    resources = dict.fromkeys(r for benchmark in benchmarks for r in benchmark.resources)
    with ThreadPoolExecutor(max_workers=16) as threads:
        faults = sorted({fault for fault in threads.map(_resource, resources) if fault})
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


def _resource(resource: Resource) -> str:
    if isinstance(resource, HubSplit):
        return _hub("dataset", resource.repository, resource.revision)
    if isinstance(resource, PinnedFile) and resource.url:
        return _file(resource.url)
    return ""


def _hub(kind: str, name: str, revision: str | None) -> str:
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
        return f"{name}: the hub does not answer: {_said(fault)}"
    if found.gated and not get_token():
        return f"{name} is gated: accept its conditions on its page, and set HF_TOKEN"
    return ""


def _file(url: str) -> str:
    if not url.startswith("https://"):
        return ""
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 (https only, see above)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):  # noqa: S310 (the same)
            return ""
    except (OSError, ValueError) as fault:
        reason = fault.reason if isinstance(fault, urllib.error.URLError) else fault
        return f"{url} cannot be reached: {without_credentials(str(reason))[:200]}"


def _said(fault: Exception) -> str:
    return without_credentials(network_reason(fault))
