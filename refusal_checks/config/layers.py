"""Layers of keys from files and the command line; in the merge, the later layer wins."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.config.tables import NAMED, TABLES
from refusal_checks.core.errors import ThresholdError, UserError
from refusal_checks.core.settings import FromFile, Frozen
from refusal_checks.core.suggestions import suggest


@dataclass(frozen=True)
class Layer:
    """Keys of tables written in one place.

    Attributes:
        content: tables of values by key.
        where: the place as messages name it: a file, or words of the command line.
        folder: base of relative paths; None for the current folder.
        option: the command-line option that gave the only value; else empty.
    """

    content: Mapping[str, Any]
    where: str
    folder: Path | None = None
    option: str = ""


def parse_override(text: str) -> Layer:
    """Parse ``--set TABLE.KEY=VALUE``. VALUE is read as TOML, or as text if it is not valid TOML.

    Raises:
        UserError: the text is not of this form, or a list or table lost its quotes in the shell.
    """
    key, equals, value = text.partition("=")
    value = value.strip()
    where = f"--set {text}"
    if not (key.strip() and equals):
        raise UserError(
            f"{where}: write --set TABLE.KEY=VALUE, as in --set sampling.samples=2"
        )
    # A line break could begin a table of its own.
    lines = [f"{key} = {json.dumps(value)}"]
    if "\n" not in text and "\r" not in text:
        lines.insert(0, text)
    for line in lines:
        content = _parse_toml(line)
        if content is not None:
            if line is not text and value.startswith(("[", "{")):
                example = '["TEXT"]' if value.startswith("[") else '{KEY="TEXT"}'
                raise UserError(
                    f"{where}: quote it for the shell: --set '{key}={example}'"
                )
            return Layer(content, where=where, option=where)
    raise UserError(
        f"{where}: write --set TABLE.KEY=VALUE: {key!r} is not a key of a table"
    )


def _parse_toml(line: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(line)
    # Not TOML, or nested too deeply, or a number of thousands of digits.
    except (ValueError, RecursionError):
        return None


def option_layer(name: str, value: object, prefix: str = "--") -> Layer:
    """The layer of an option with a name of its own, such as ``--samples``."""
    table, _, key = NAMED[name].partition(".")
    # Options that can be repeated come as lists, which keys of one value refuse.
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    option = f"{prefix}{name}"
    shown = option
    if value is not True and not isinstance(value, list):
        shown = f"{option} {value}"
    return Layer({table: {key: value}}, where=option, option=shown)


def _merge(before: Any, after: Any) -> Any:
    """Merge two values of a key: tables key by key; otherwise the later value wins."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    joined = dict(before)
    for key, value in after.items():
        joined[key] = _merge(joined[key], value) if key in joined else value
    return joined


def resolve_benchmark_tables(layer: Layer) -> dict[str, Any]:
    """The benchmark tables of a layer, with their relative paths resolved."""
    folder = layer.folder or Path.cwd()
    tables: dict[str, Any] = {}
    for name, table in layer.content.items():
        if name in TABLES:
            continue
        tables[name] = dict(table)
        for key in ("file", "rubric"):
            if isinstance(table.get(key), str):
                tables[name][key] = str(folder / table[key])
    return tables


def require_tables(layer: Layer) -> None:
    """Refuse a key without a table, as in ``--set samples=2``."""
    for name, table in layer.content.items():
        if isinstance(table, dict):
            continue
        if name in TABLES:
            raise UserError(f"{layer.where}: write {name}.KEY=VALUE")
        hint = suggest(name, TABLES)
        for owner, kind in TABLES.items():
            if name in kind.model_fields:
                hint = f'; did you mean "{owner}.{name}"?'
                break
        raise UserError(f"{layer.where}: write TABLE.KEY=VALUE{hint}")


def read_table(name: str, kind: type[Frozen], layers: Sequence[Layer]) -> Frozen:
    """Read a table from all layers; an error names the layer that caused it.

    Each file must be valid together with those before it. The command line need only be valid as
    a whole, as one option may need a later one.
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
            written = _resolve_paths(layer.folder, kind, written)
        merged = _merge(merged, written)
        try:
            table = kind.read(merged, where, ThresholdError, option=layer.option)
            errors = []
        except ThresholdError as fault:
            if layer.folder:
                raise
            # A later option may complete it, as the second of ``--judge`` and ``judge.args``.
            errors.append(UserError(*fault.args))
    if errors:  # the first is nearest to what the user typed wrong
        raise errors[0]
    return table


def _resolve_paths(
    folder: Path, kind: type[Frozen], table: Mapping[str, Any]
) -> dict[str, Any]:
    """Resolve a table's relative paths against its file's folder."""

    def resolve(value: object, name: str) -> object:
        if isinstance(value, list):
            return [resolve(item, name) for item in value]
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
            placed[name] = resolve(value, name)
    return placed
