"""What the machine and the models' files say."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from refusal_checks.engines import devices
from refusal_checks.models.files import _on_hub, weights_gib

Smi = Callable[[str], None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Puts an ``nvidia-smi`` that prints these lines first on the path."""

    def install(lines: str) -> None:
        tool = tmp_path / "nvidia-smi"
        script = f"#!/bin/sh\ncat <<'END'\n{lines}END\n"
        tool.write_text(script, encoding="utf-8", errors="surrogateescape")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return install


THREE = (
    "0, GPU-aa11, 81920, 4\n"
    "1, GPU-bb22, 49152, 30000\n"
    "2, GPU-cc33, 49152, 500\n"
)  # fmt: skip


def test_gpus_that_others_use_are_left_out(smi: Smi) -> None:
    smi(THREE)
    found = devices.gpus()
    assert (found.kind, found.ids, found.memory, found.busy) == ("gpu", ("0", "2"), 48.0, ("1",))
    assert found.used == 500 / 49152, "by others on what is left"
    smi("0, GPU-aa11, 81920, 61440\n")
    found = devices.gpus()
    assert (found.ids, found.used) == (("0",), 0.75), "where all are in use, there may be room"


@pytest.mark.parametrize(
    ("limit", "ids", "memory"),
    [
        ("2", ("2",), 48.0),
        ("2,0", ("2", "0"), 48.0),
        ("1", ("1",), 48.0),
        ("GPU-aa", ("GPU-aa",), 80.0),
        ("MIG-1234", ("MIG-1234",), None),
        ("", (), None),
        ("-1", (), None),
    ],
)
def test_only_visible_gpus_count(
    smi: Smi,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    ids: tuple[str, ...],
    memory: float | None,
) -> None:
    smi(THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", limit)
    found = devices.gpus()
    assert (found.ids, found.memory) == (ids, memory)


def test_a_gpu_that_shares_the_machine_s_memory(smi: Smi) -> None:
    smi("0, GPU-aa11, [N/A], [N/A]\n")
    found = devices.gpus()
    assert (found.ids, found.memory, found.used) == (("0",), None, 0.0)


@pytest.mark.parametrize(
    "lines", ["No devices were found\n", "", "Unable to determine \udce4 handle, GPU, lost\n"]
)
def test_what_the_driver_says_in_place_of_gpus_is_none(smi: Smi, lines: str) -> None:
    smi(lines)
    assert devices.gpus().kind == "unknown"


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1})
    found = devices.cpu()
    assert found.ids == ("1", "3")
    assert found.memory
    assert found.memory > 0


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, math.inf),
        ({"memory.max": "max", "memory.current": "9"}, math.inf),
        (
            {
                "memory.max": "1000\n",
                "memory.current": "700\n",
                "memory.stat": "anon 100\nactive_file 50\ninactive_file 200\n",
            },
            550,
        ),
    ],
)
def test_a_container_s_limit_counts(tmp_path: Path, files: dict[str, str], left: float) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert devices._left_to_container(tmp_path) == left


def sized(folder: Path, **files: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, mebibytes in files.items():
        with (folder / name.replace("_dot_", ".")).open("wb") as file:
            file.truncate(mebibytes * 2**20)
    return str(folder)


def test_weights_are_the_files_of_one_format(tmp_path: Path) -> None:
    assert weights_gib(sized(tmp_path / "none", config_dot_json=1)) is None
    one = sized(tmp_path / "one", model_dot_safetensors=512, consolidated_dot_safetensors=512)
    assert weights_gib(one) == 0.5
    assert weights_gib(sized(tmp_path / "two", a_dot_bin=512, b_dot_bin=512)) == 1.0
    shards = {f"model-0000{n}-of-00002_dot_safetensors": 256 for n in (1, 2)}
    assert weights_gib(sized(tmp_path / "three", **shards, old_dot_bin=99)) == 0.5


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(cache: Path, **files: int) -> str:
    """Put a model ``org/name`` into a cache of the hub; the cache's folder."""
    repository = cache / "models--org--name"
    sized(repository / "snapshots" / COMMIT, config_dot_json=0, **files)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return str(cache)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What a hub answers, by the path that it is asked for."""
    answers: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *args: object) -> None: ...

    _on_hub.cache_clear()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield answers
        server.shutdown()
        thread.join()
    _on_hub.cache_clear()


def listed(**files: int) -> dict[str, object]:
    """A model as the hub lists it, with files of so many MiB."""
    names = {name.replace("_dot_", ".").replace("_in_", "/"): files[name] for name in files}
    siblings = [{"rfilename": name, "size": size * 2**20} for name, size in names.items()]
    return {"id": "org/name", "siblings": siblings}


@pytest.mark.usefixtures("hub")
def test_weights_in_the_hub_s_cache(tmp_path: Path) -> None:
    cache = cached(tmp_path, model_dot_safetensors=512)
    assert weights_gib("org/name", cache=cache) == 0.5
    assert weights_gib("org/name", COMMIT, cache) == 0.5
    assert weights_gib("org/other", cache=cache) is None
    assert weights_gib("not an id", cache=cache) is None
    # vLLM fetches what it needs alone, and the hub's library notes all that there is.
    trees = tmp_path / "models--org--name" / "trees"
    trees.mkdir()
    entry = {"size": 1, "blob_id": "0" * 40}
    files = {"README.md": entry, "model.safetensors": entry}
    (trees / f"{COMMIT}.json").write_text(json.dumps({"format_version": 1, "files": files}))
    assert weights_gib("org/name", cache=cache) == 0.5


def test_weights_that_are_not_here_yet_are_as_large_as_the_hub_says(
    tmp_path: Path, hub: dict[str, object]
) -> None:
    hub["/api/models/org/name?blobs=true"] = listed(
        model_dot_safetensors=512, model_dot_bin=99, original_in_a_dot_safetensors=99
    )
    hub["/api/models/org/name/revision/v2?blobs=true"] = listed(model_dot_bin=256)
    cache = cached(tmp_path)  # its configuration alone
    assert weights_gib("org/name", cache=cache) == 0.5
    assert weights_gib("org/name", "v2", cache) == 0.25
    assert weights_gib("org/gone", cache=cache) is None


def test_without_a_network_nothing_is_known_of_weights_that_are_not_here(
    tmp_path: Path, hub: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub["/api/models/org/name?blobs=true"] = listed(model_dot_safetensors=512)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert weights_gib("org/name", cache=str(tmp_path)) is None


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "nonsense"}, None),
    ],
)
def test_a_container_s_share_of_time_counts(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert devices._time_of_container(tmp_path) == cores
