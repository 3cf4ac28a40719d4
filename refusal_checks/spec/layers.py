"""Layers of keys, each written in one place, and how they become one: the later one wins."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import ThresholdError, UserError
from refusal_checks.core.settings import (
    FromFile,
    Frozen,
)
from refusal_checks.core.suggestions import near
from refusal_checks.gates.tables import Bounds
from refusal_checks.spec.tables import NAMED, TABLES


@dataclass(frozen=True)
class Layer:
    """Keys of tables that were written in one place.

    Attributes:
        content: values by key, by table.
        where: names the place: a file, or the words of the command line.
        folder: the folder that relative paths start from; None for the current one.
        option: the option of the command line that gave the one value; empty elsewhere.
    """

    content: Mapping[str, Any]
    where: str
    folder: Path | None = None
    option: str = ""


def override(text: str) -> Layer:
    """What ``--set TABLE.KEY=VALUE`` says; VALUE is TOML, and anything else a text as it is.

    Raises:
        UserError: the text does not have this form.
    """
    key, equals, value = text.partition("=")
    where = f"--set {text}"
    if not (key.strip() and equals):
        raise UserError(
            f"{where}: write --set TABLE.KEY=VALUE, as in --set sampling.samples=2"
        )
    # A line break could begin a table of its own.
    lines = [f"{key} = {json.dumps(value.strip())}"]
    if "\n" not in text and "\r" not in text:
        lines.insert(0, text)
    for line in lines:
        try:
            return Layer(tomllib.loads(line), where=where, option=where)
        except (
            ValueError,
            RecursionError,
        ):  # no TOML, or a number of thousands of digits
            continue
    raise UserError(
        f"{where}: write --set TABLE.KEY=VALUE: {key!r} is no key of a table"
    )


def named(option: str, value: object) -> Layer:
    """What an option with a name of its own says."""
    table, _, key = NAMED[option.removeprefix("--")].partition(".")
    single = value
    if isinstance(value, list) and len(value) == 1:
        single = value[0]
    shown = option
    if single is not True and not isinstance(single, list):
        shown = f"{option} {single}"
    return Layer({table: {key: value}}, where=option, option=shown)


def _copied(content: Any) -> Any:
    """A copy of nested tables, which merging changes."""
    if isinstance(content, dict):
        return {key: _copied(value) for key, value in content.items()}
    return content


_BOUNDS = frozenset(Bounds.model_fields)


def _holds_bounds(table: Mapping[str, Any], depth: int) -> bool:
    """Whether a table, so deep below that of a benchmark, is what a file says of a gate."""
    return depth >= 2 and not _BOUNDS.isdisjoint(table)


def over(before: Any, after: Any, *, keeps_bounds: bool, depth: int = 0) -> Any:
    """Tables of benchmarks, with what a later layer says over what earlier ones do."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    if _holds_bounds(after, depth):
        return {**before, **after} if keeps_bounds else after
    result = dict(before)
    for key, value in after.items():
        old = before.get(key)
        result[key] = over(old, value, keeps_bounds=keeps_bounds, depth=depth + 1)
    return result


def picked(merged: Any, written: Any, depth: int = 0) -> Any:
    """What was merged, at the places that a layer has written to."""
    if not (isinstance(merged, dict) and isinstance(written, dict)):
        return merged
    if _holds_bounds(written, depth):
        return dict(merged)
    return {
        key: picked(merged[key], value, depth + 1) for key, value in written.items()
    }


def _joined(before: Any, after: Any) -> Any:
    """Two values of a key: tables key by key, else the later one."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    joined = dict(before)
    for key, value in after.items():
        joined[key] = _joined(joined[key], value) if key in joined else value
    return joined


def of_benchmarks(layer: Layer) -> dict[str, Any]:
    """What a layer says of benchmarks, as a copy."""
    tables: dict[str, Any] = {}
    for name, table in layer.content.items():
        if name not in TABLES:
            tables[name] = _copied(table)
    if layer.folder is not None:
        return tables  # merging has their paths start from the file's folder
    for table in tables.values():
        for key in ("file", "rubric"):
            if isinstance(table.get(key), str):
                table[key] = str(Path.cwd() / table[key])
    return tables


def require_tables(layer: Layer) -> None:
    """Refuse a key that stands in no table, as in ``--set samples=2``."""
    for name, table in layer.content.items():
        if isinstance(table, dict):
            continue
        hint = near(name, TABLES)
        for owner, kind in TABLES.items():
            if name in kind.model_fields:
                hint = f'; did you mean "{owner}.{name}"?'
                break
        raise UserError(f"{layer.where}: write TABLE.KEY=VALUE{hint}")


def read_table(name: str, kind: type[Frozen], layers: Sequence[Layer]) -> Frozen:
    """A table from all layers; what is wrong is said of the layer that wrote it.

    A file is right by itself, or with those before it. Words of the command line are right
    together: one may need what a later one says.
    """
    merged: dict[str, Any] = {}
    table = kind()
    errors: list[UserError] = []
    for layer in layers:
        if name not in layer.content:
            continue
        where = f"{layer.where}: [{name}]"
        written = layer.content[name]
        if not isinstance(written, dict):
            raise ThresholdError(f"{where}: must be a table")
        if layer.folder:
            written = _below(layer.folder, kind, written)
        merged = _joined(_without_alternatives(kind, merged, written), written)
        try:
            table = kind.read(merged, where, ThresholdError, option=layer.option)
            errors = []
        except ThresholdError as fault:
            if layer.folder:
                raise
            errors.append(UserError(*fault.args))
    if errors:
        raise errors[0]
    return table


def _without_alternatives(
    kind: type[Frozen], merged: Mapping[str, Any], written: Mapping[str, Any]
) -> dict[str, Any]:
    """What earlier layers say, less what a later one says in another way."""
    either: Sequence[str] = getattr(kind, "either", ())
    replaced = either if set(either) & written.keys() else ()
    return {name: value for name, value in merged.items() if name not in replaced}


def _below(
    folder: Path, kind: type[Frozen], table: Mapping[str, Any]
) -> dict[str, Any]:
    """A table of a file, its relative paths starting from the file's folder."""

    def joined(value: object, name: str) -> object:
        if isinstance(value, list):
            return [joined(item, name) for item in value]
        if not isinstance(value, str) or not value:
            return value
        # A judge prompt may be one that comes with the package, and a baseline a run.
        if name == "prompt" and not value.endswith(".md"):
            return value
        if name == "path" and not (folder / value).exists():
            return value
        return str(folder / value)

    placed = dict(table)
    for name, value in table.items():
        field = kind.model_fields.get(name)
        if field and any(isinstance(mark, FromFile) for mark in field.metadata):
            placed[name] = joined(value, name)
    return placed
