"""Recorded attack texts, sent to another model: a transfer attack, ``attacks = ["artifact:FILE"]``.

The file is an attack artifact of JailbreakBench's (its ``goal`` is the plain prompt, its ``prompt``
the attack text), or a table with the columns ``prompt`` and ``attack``. A prompt for which the file
has no text, because the attack was given up, is left out and counted.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.attacks.attack import Attack, worded
from refusal_checks.core.data_files import objects, parsed, rows_of
from refusal_checks.core.errors import DataError
from refusal_checks.core.files import read_bytes
from refusal_checks.core.text import storable

PREFIX = "artifact:"
"""Begins the name of such an attack in a run file; a path follows, relative to that file."""

_read: dict[str, Attack] = {}


def known(name: str) -> Attack | None:
    """The attack of this name, if its file has been read in this process."""
    return _read.get(name)


def read(path: Path) -> Attack:
    """Read the attack that sends a file's texts; its name is ``artifact_`` and the file's name.

    If that has no Latin letters or digits, the file's digest replaces it.
    """
    content = read_bytes(path)
    texts = _texts(path, _rows(path, content))
    sha256 = hashlib.sha256(content).hexdigest()
    slug = re.sub(r"[^a-z0-9]+", "_", path.stem.lower())[:31].strip("_")
    name = f"artifact_{slug or sha256[:8]}"
    if name in _read and _read[name].sha256 != sha256:
        raise DataError(
            f"{path}: give the file another name: {name} already stands for another file's attacks"
        )
    _read[name] = Attack(
        name,
        f"recorded in {path.name}",
        f"sends the attack text that {path.name} has for the prompt",
        worded(lambda request: texts.get(request.strip())),
        f"{path.name} has no attack text for them",
        sha256=sha256,
    )
    return _read[name]


def _rows(path: Path, content: bytes) -> Sequence[tuple[Any, Any]]:
    """Yield plain prompts, each with its attack text."""
    data = parsed(path, content) if path.suffix == ".json" else None
    if isinstance(data, Mapping) and isinstance(data.get("jailbreaks"), list):
        rows = [row for row in data["jailbreaks"] if isinstance(row, Mapping)]
        return [(row.get("goal"), row.get("prompt")) for row in rows]
    table = rows_of(path, content) if data is None else objects(path, data)
    if not any("prompt" in row and "attack" in row for row in table):
        raise DataError(
            f"{path}: give it the columns prompt and attack (the text to send instead), or name a "
            "JailbreakBench attack artifact"
        )
    return [(row.get("prompt"), row.get("attack")) for row in table]


def _texts(path: Path, rows: Sequence[tuple[Any, Any]]) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for number, (plain, attack) in enumerate(rows, 1):
        if attack is None or (isinstance(attack, str) and not attack.strip()):
            continue
        if not isinstance(plain, str) or not isinstance(attack, str):
            raise DataError(
                f"{path}: row {number}: write the prompt and its attack as texts"
            )
        if texts.setdefault(plain.strip(), storable(attack)) != storable(attack):
            raise DataError(f"{path}: row {number}: keep one attack text per prompt")
    if not texts:
        raise DataError(
            f"{path}: name another file, or leave this attack out: it has an attack text for no "
            "prompt"
        )
    return texts
