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


def put_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict(dict(columns)).to_parquet(str(path))
    return path
