"""Small files of data, as public sets publish them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def put_parquet(
    path: Path,
    columns: Mapping[str, Sequence[Any]],
    classes: Mapping[str, list[str]] | None = None,
) -> Path:
    """Write columns; the numbers in those with ``classes`` are labels of these names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = datasets.Dataset.from_dict(dict(columns))
    for column, names in (classes or {}).items():
        rows = rows.cast_column(column, datasets.ClassLabel(names=names))
    rows.to_parquet(str(path))
    return path
