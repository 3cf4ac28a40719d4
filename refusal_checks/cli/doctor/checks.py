"""The doctor's checks: this machine, its engine, and a run's models and data."""

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks import Benchmark, mirror_index, pinned
from refusal_checks.benchmarks.benchmark import Resource
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError, ModelError, network_reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.redaction import without_credentials
from refusal_checks.core.special_tokens import FAMILIES
from refusal_checks.core.text import clean
from refusal_checks.engines import devices, needs, vllm
from refusal_checks.engines.vllm import ENGINE
from refusal_checks.gates import power
from refusal_checks.gates.gate import Gate
from refusal_checks.models import names
from refusal_checks.models.client import attaching
from refusal_checks.models.client.attaching import api_key
from refusal_checks.models.identity import cached_commit
from refusal_checks.models.names import Attached, Served
from refusal_checks.models.provided import Weights

MOST_GATES = 20
"""Report at most so many gates one by one."""

LEAST_MEMORY = 4.0
"""GiB of memory that vLLM needs to start: its processes take 2 without any model."""

LEAST_DISK = 20.0
"""GiB of disk under which a model of a few billion parameters does not fit."""

IMPORT_TIMEOUT = 300.0
"""Seconds that importing an engine may take; from a cold disk it takes a minute."""

TIMEOUT = 5.0
"""Seconds that one address may take to answer."""


class Level(StrEnum):
    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Diagnosis:
    """A finding of the doctor, and what to do about it, if anything."""

    level: Level
    what: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = "; ".join(filter(None, (self.text, self.remedy)))
        return f"{self.level:<4}  {self.what:<12}  {clean(line, 1000)}"


ok, warn, fail = (partial(Diagnosis, level) for level in Level)


def machine(store: Path) -> Iterator[Diagnosis]:
    """Check memory for an engine's processes, and disk space for answers and weights."""
    free = devices.cpu().memory or 0.0
    text = f"{free:.1f} GiB free"
    if free < LEAST_MEMORY:
        yield warn("memory", text, "an engine needs more; end other processes")
    else:
        yield ok("memory", text)
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    for what, path in (("disk: store", store), ("disk: models", home)):
        there = next(
            parent for parent in (path, *path.absolute().parents) if parent.exists()
        )
        free = shutil.disk_usage(there).free / 2**30
        text = f"{free:.0f} GiB free at {there}"
        if free < 1:
            yield fail(what, text, "free some space")
        elif path == home and free < LEAST_DISK:
            yield warn(what, text, "weights may not fit; set HF_HOME to another")
        else:
            yield ok(what, text)


def engine(program: Sequence[str], needed: bool) -> Iterator[Diagnosis]:
    """The engine and its devices; attached servers and recordings need neither."""
    bad = fail if needed else warn
    finding = _installed(program, bad)
    yield finding
    if vllm.runs_on_cpu():
        yield ok(
            "devices", f"{len(devices.cpu().ids)} CPU cores; large models need a GPU"
        )
        return
    yield _gpus(needed, finding.level is Level.OK)


def _gpus(are_needed: bool, has_engine: bool) -> Diagnosis:
    gpus = devices.gpus()
    if gpus.kind != "gpu":
        if not are_needed:
            return ok("devices", "no GPU; no model named here needs one")
        missing = fail if has_engine else warn
        return missing("devices", "no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    text = f"GPU {', '.join(gpus.ids)}"
    if gpus.memory:
        text += f", {gpus.memory:.0f} GiB each at least"
    if gpus.busy:
        return warn("devices", f"{text}; in use: {', '.join(gpus.busy)}")
    return ok("devices", text)


def _installed(program: Sequence[str], bad: partial[Diagnosis]) -> Diagnosis:
    try:
        ENGINE.require_program(program)
    except ModelError as fault:
        text = "not installed; no model named here needs it"
        return bad("vLLM", str(fault)) if bad is fail else ok("vLLM", text)
    if program:
        return ok("vLLM", f"started by {program[0]}")
    script = "import vllm; print(vllm.__version__)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=IMPORT_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return bad("vLLM", f"takes more than {IMPORT_TIMEOUT:.0f} s to import")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[
            -1
        ]
        return bad("vLLM", f"cannot be imported: {last}", "install it again")
    build = "CPU" if vllm.runs_on_cpu() else "GPU"
    return ok("vLLM", f"{done.stdout.split()[-1]}, {build} build")


Model = names.CandidateModel | names.JudgeModel


def model(option: str, number: int, name: str) -> tuple[Model | None, Diagnosis]:
    """Check the model that a name stands for, and ask its server; None if there is no model."""
    what = option.lstrip("-")
    try:
        parse = names.parse_candidate if what == "candidate" else names.parse_judge
        parsed: Model = parse(name)
        if not isinstance(parsed, Attached):
            return parsed, _weights(parsed, what, name)
        listed = attaching.list_contexts(parsed.url, api_key(option, number), option)
        chosen = attaching.choose(parsed.url, parsed.model, listed, option)
        if listed and chosen not in listed:
            return parsed, warn(what, f"{parsed.url} does not list {chosen}")
        return parsed, ok(what, f"{parsed.url} has {chosen}")
    except ModelError as fault:
        return None, fail(what, str(fault))


def loading(
    option: str, model: Model | None, program: Sequence[str]
) -> Iterator[Diagnosis]:
    """What the engine must be told to load or query a model; the gate run may tell it."""
    if isinstance(model, Served):
        asked = replace(model, program=tuple(program))
        missing = needs.missing_template(asked, option)
        if missing:
            yield warn(option.lstrip("-"), missing)


def _weights(model: Model, what: str, text: str) -> Diagnosis:
    if isinstance(model, Served) and model.weights:
        return _made(model.weights, what, text)
    if not isinstance(model, Served) or Path(model.path).is_dir():
        return ok(what, text)
    if "@" in cached_commit(model.path):
        return ok(what, f"{text}, cached")
    if is_offline():
        fault = "HF_HUB_OFFLINE is set: download it first, or name a folder"
    else:
        fault = unreached_model(model.path)
    if fault:
        return fail(what, f"{text} is not in the cache", fault)
    return ok(what, f"{text}, to be downloaded")


def _made(weights: Weights, what: str, text: str) -> Diagnosis:
    try:
        if weights.is_ready():
            return ok(what, f"{text}, made: {_sized(weights.folder)}")
        weights.check()
    except ModelError as fault:
        return fail(what, f"{text}: {fault}")
    text += f", to be made once, into {weights.folder}"
    if weights.folder.exists():
        return warn(what, text, "what is there is damaged, and is made again")
    return ok(what, text)


def _sized(folder: Path) -> str:
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{folder} ({size / 2**20:.0f} MiB)"


def hugging_face() -> Diagnosis:
    from huggingface_hub import get_token

    token = "a token" if get_token() else "no token: gated models cannot be fetched"
    offline = "; offline: only what is cached" if is_offline() else ""
    return ok("hugging face", f"{token}{offline}")


def is_offline() -> bool:
    """True if the hub must not be contacted."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def unreached_model(name: str) -> str:
    """Why a model of the hub cannot be fetched; empty if it can."""
    return _unreached("model", name, None)


def unreached_data(benchmarks: Iterable[Benchmark]) -> str:
    """Why data cannot be fetched: the first address without an answer; empty if all answer."""
    resources = dict.fromkeys(
        r for benchmark in benchmarks for r in benchmark.resources
    )
    with ThreadPoolExecutor(max_workers=16) as threads:
        faults = sorted({fault for fault in threads.map(_resource, resources) if fault})
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


def _resource(resource: Resource) -> str:
    if isinstance(resource, HubSplit):
        return _unreached("dataset", resource.repository, resource.revision)
    if not isinstance(resource, pinned.PinnedFile) or not resource.url.startswith(
        "https://"
    ):
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
        info = ask(name, revision=revision, timeout=TIMEOUT)
    except errors.RepositoryNotFoundError:
        return f"{name}: the hub has no such {kind}, or your token may not see it"
    except errors.RevisionNotFoundError:
        return f"{name}: the hub has no revision {revision} of it"
    # Any exception: the hub's library passes on those of its HTTP client, which it has replaced.
    except Exception as fault:
        return f"{name}: the hub does not answer: {without_credentials(network_reason(fault))}"
    if info.gated and not get_token():
        return f"{name} is gated: accept its conditions on its page, and set HF_TOKEN"
    return ""


Local = Mapping[str, Sequence[Prompt]]
"""Prompts by benchmark, for benchmarks whose data is here."""


def local_prompts(benchmarks: Iterable[Benchmark], data: str | None) -> Local:
    """Load the prompts of benchmarks whose data is here or in the mirror that ``--data`` names."""
    folder = None
    loaded: dict[str, Sequence[Prompt]] = {}
    with suppress(DataError):
        folder = pinned.mirror_folder(data)
    for benchmark in benchmarks:
        at = benchmark.at(folder)
        if not at.resources or (folder and at.is_in(folder)):
            with suppress(DataError):  # the run says what is wrong
                loaded[benchmark.name] = mirror_index.load_checked(at, folder)
    return loaded


def special_prompts(prompts: Local) -> Iterator[Diagnosis]:
    """Benchmarks whose prompts contain tokens that a chat template uses to separate turns."""
    for name, own in prompts.items():
        special = [prompt for prompt in own if FAMILIES.count(prompt.transcript)]
        if special:
            text = (
                f"{name}: {len(special)} of {len(own)} prompts hold special tokens of chat "
                f"templates, the first is {special[0].id}"
            )
            remedy = "the candidate gets them unchanged; judges get them broken up"
            yield warn("prompts", text, remedy)


def shown_by(
    gates: Sequence[Gate], prompts: Local, level: float
) -> Iterator[Diagnosis]:
    """Say what the gates on these prompts can show."""
    sizes = {}
    for gate in gates:
        own = prompts.get(gate.benchmark)
        if own is not None:
            for part in gate.of_each_group(own):
                sizes[part] = sum(map(part.looks_at, own))
    lines = list(power.remarks(sizes, level))
    for line in lines[:MOST_GATES]:
        yield (warn if power.TOO_FEW in line else ok)("gate", line)
    more = len(lines) - MOST_GATES
    if more > 0:
        yield ok("gate", f"{more} more, on as many prompts or more")
